"""Gives a node the tasks it may run now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskyard.domain.node import Lease
from taskyard.domain.outcome import Verdict
from taskyard.store.port import Claim
from taskyard.store.redis.rows import claimed, number_of_numbers


def count(found: Sequence[Any]) -> int:
    """How many tasks are in such an answer, those that cannot be read too."""
    refused, *rest = found
    return 0 if refused else sum(number_of_numbers(part[0]) for part in rest[2:])


def answer(found: Sequence[Any], lease: Lease) -> tuple[Claim, list[Verdict]]:
    """From what lua/parts/claiming.lua answers; the verdicts end what cannot be read."""
    refused, *rest = found
    if refused:
        return Claim([], refused=refused.decode()), []
    more, now, at_once, later = rest
    tasks, unreadable = claimed(at_once, lease, int(now))
    ahead, unreadable_ahead = claimed(later, lease, int(now))
    unreadable += unreadable_ahead
    numbers = frozenset(task.no for task in ahead)
    return Claim(tasks + ahead, numbers, more=bool(more or unreadable)), unreadable
