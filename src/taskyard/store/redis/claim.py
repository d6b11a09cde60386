"""Gives a node the tasks it may run now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskyard.domain.node import Lease
from taskyard.store.port import Claim
from taskyard.store.redis.rows import claimed


def answer(found: Sequence[Any], lease: Lease) -> Claim:
    """From what lua/parts/claiming.lua answers."""
    refused, *rest = found
    if refused:
        return Claim([], refused=refused.decode())
    more, at_once, later = rest
    ahead = claimed(later, lease)
    tasks = claimed(at_once, lease) + ahead
    return Claim(tasks, frozenset(task.no for task in ahead), more=bool(more))
