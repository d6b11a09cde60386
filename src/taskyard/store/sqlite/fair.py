"""Fair lanes: which task of a group takes the group's places (domain/order.py)."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.store.sqlite.found import Found
from taskyard.store.sqlite.tx import Tx, to_json

Keys = tuple[str, ...]


def fill(
    tx: Tx, lane: int, routes: Sequence[int], candidates: list[Found]
) -> tuple[list[Found], list[Keys]]:
    """Let the first of each group, by priority and seq, have the group's places among these.

    Answers who has the places then, and the keys of those that were moved back.
    """
    groups: dict[str, list[int]] = {}
    for at, candidate in enumerate(candidates):
        groups.setdefault(candidate.rotation or "", []).append(at)
    best = _best(tx, lane, routes, groups) if candidates else {}
    filled = list(candidates)
    changed: list[tuple[int, int]] = []
    moved_back: list[Keys] = []
    for group, places in groups.items():
        held = [candidates[at] for at in places]
        first = best[group][: len(held)]
        for at, task in zip(places, first, strict=False):
            filled[at] = task
        for task, rank in _exchanged(held, first):
            changed.append((task.no, rank))
            if rank > task.rank and task.keys:
                moved_back.append(task.keys)
    if changed:
        tx.run(tx.sql("order")["exchange"], to_json(changed))
    return filled, moved_back


def _best(
    tx: Tx, lane: int, routes: Sequence[int], groups: dict[str, list[int]]
) -> dict[str, list[Found]]:
    """The first ready tasks of each group, of the routes the node serves."""
    pairs = [(group, route) for group in groups for route in routes]
    most = max(map(len, groups.values()))
    rows = tx.rows(list[list[Found]], tx.sql("order")["groups"], lane, to_json(pairs), most)
    best: dict[str, list[Found]] = {group: [] for group in groups}
    for (group, _), found in zip(pairs, rows, strict=True):
        best[group] += found
    for found in best.values():
        found.sort(key=lambda task: (task.priority, task.seq))
    return best


def _exchanged(held: Sequence[Found], first: Sequence[Found]) -> list[tuple[Found, int]]:
    """Those whose rank changes when each of the first takes its place from whoever has it."""
    tasks = list({task.no: task for task in (*held, *first)}.values())
    at = {task.no: place for place, task in enumerate(tasks)}
    owners = [task.no for task in tasks]
    for place, task in enumerate(first):
        other, was = owners[place], at[task.no]
        owners[place], owners[was] = task.no, other
        at[task.no], at[other] = place, was
    ranks = [(task, tasks[at[task.no]].rank) for task in tasks]
    return [(task, rank) for task, rank in ranks if rank != task.rank]
