"""Periodic tasks, as lua/parts/crons.lua keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.domain.cron import Cron, CronEntry
from taskyard.store.redis.rows import given, or_false


class _Row(msgspec.Struct, array_like=True, frozen=True):
    cron: str  # JSON
    likeness: str
    declared: bool
    paused: bool
    next_at: Any
    last_at: Any


_row = msgspec.msgpack.Decoder(_Row).decode
_cron = msgspec.json.Decoder(Cron).decode
_json = msgspec.json.Encoder(order="deterministic").encode


def row(entry: CronEntry) -> _Row:
    cron = entry.cron
    return _Row(
        _json(cron).decode(),
        _likeness(cron),
        cron.declared,
        cron.paused,
        or_false(entry.next_at),
        or_false(entry.last_at),
    )


def _likeness(cron: Cron) -> str:
    """The same for entries that mean the same: the id of their task is not used."""
    nameless = msgspec.structs.replace(cron.task, id="")
    plain = _json(msgspec.structs.replace(cron, task=nameless))
    return hashlib.sha1(plain, usedforsecurity=False).hexdigest()


def entries(answer: Sequence[bytes]) -> list[CronEntry]:
    found = [_entry(_row(packed)) for packed in answer]
    return sorted(found, key=lambda entry: entry.cron.name)


def _entry(kept: _Row) -> CronEntry:
    return CronEntry(_cron(kept.cron), given(kept.next_at), given(kept.last_at))
