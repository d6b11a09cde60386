"""Pauses the source of a copy, and knows what it was before.

A copy signs its pause in the audit trail, and writes there which pause it has found: so one that is
made again, after it was interrupted, takes its own pause for nobody's.
"""

from __future__ import annotations

import re
import secrets
from datetime import datetime

from taskyard.domain.clock import as_datetime, as_instant
from taskyard.domain.errors import CannotCopy
from taskyard.domain.lane import Audited
from taskyard.store.port import Store, YardPause

_PAGE = 1000
_SIGNED = re.compile(r" \(copy [0-9a-f]{8}(?P<found>, was paused(?: until (?P<until>\S+))?)?\)$")


async def operators_pause(source: Store) -> YardPause | None:
    """The pause of a yard, if it is not that of a copy; else the one which that copy has found."""
    pause = await source.yard_paused()
    line = None if pause is None else await _last_line(source)
    signed = None if line is None else _SIGNED.search(line.actor)
    if signed is None:
        return pause
    if signed["found"] is None:
        return None
    until = signed["until"]
    return YardPause(None if until is None else as_instant(datetime.fromisoformat(until)))


async def pause(source: Store, target: Store, actor: str, found: YardPause | None) -> None:
    signed = f"{actor} (copy {secrets.token_hex(4)}{_told(found)})"
    await source.pause_yard(True, actor=signed)
    if any(line.actor == signed for line in await target.audit(limit=10)):
        raise CannotCopy("source and target are the same yard")


async def set_pause(store: Store, pause: YardPause | None, actor: str) -> None:
    """Pause a yard like this, or let it go on."""
    until = None if pause is None else pause.until
    await store.pause_yard(pause is not None, until=until, actor=actor)


async def _last_line(source: Store) -> Audited | None:
    """Who paused it, or let it go on, last."""
    before: int | None = None
    while page := await source.audit(limit=_PAGE, before=before):
        for line in page:
            if line.subject == "yard":
                return line
        before = page[-1].no
    return None


def _told(found: YardPause | None) -> str:
    if found is None:
        return ""
    until = "" if found.until is None else f" until {as_datetime(found.until).isoformat()}"
    return f", was paused{until}"
