"""Invariants of bodies: S one at a time, M keys, C lanes, T terminal stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from taskyard.domain.state import TERMINAL, State
from taskyard.domain.task import Task
from tests.crash.evidence import Body, Evidence
from tests.crash.finding import Finding

SHOWN = 26  # of a task's id


def one_at_a_time(evidence: Evidence) -> Finding:
    """S: attempts of a task grow, their bodies never overlap, and the last one is believed."""
    found = Finding("S", "one accepted attempt at a time")
    for task_id, bodies in evidence.bodies_of.items():
        found.checked += len(bodies)
        found.violations += _out_of_turn(bodies)
        task = evidence.by_id.get(task_id)
        if task is not None:
            found.violations += _wrongly_believed(task, bodies)
    return found


def _out_of_turn(bodies: list[Body]) -> Iterator[str]:
    for body, twin in pairwise(sorted(bodies, key=lambda body: body.attempt)):
        if body.attempt == twin.attempt:
            yield f"{_name(body)} started twice, in {body.pid} and {twin.pid}"
    steady = [body for body in bodies if not body.late]
    for before, after in pairwise(steady):
        if after.attempt < before.attempt:
            yield f"{_name(after)} started after attempt {before.attempt}"
        if after.start < before.end:
            overlap = (before.end - after.start) / 1e6
            yield f"{_name(after)} overlaps attempt {before.attempt} by at least {overlap:.1f} ms"


def _wrongly_believed(task: Task, bodies: list[Body]) -> Iterator[str]:
    newest = max(body.attempt for body in bodies)
    if newest > task.attempt:
        yield f"{task.id} ran attempt {newest}, the store knows only {task.attempt}"
    if task.state is State.COMPLETED:
        if task.result != str(task.attempt):
            yield f"{task.id} holds the result {task.result} at attempt {task.attempt}"
        if not any(body.attempt == task.attempt and body.how == "ok" for body in bodies):
            yield f"{task.id} is completed, but the body of attempt {task.attempt} never ended well"


def keys_within_limits(evidence: Evidence) -> Finding:
    """M: at no instant do more bodies hold a key than its limit."""
    found = Finding("M", "no key over its limit")
    for key, bodies in _grouped(evidence.bodies, lambda body: body.keys).items():
        found.checked += len(bodies)
        found.violations += _crowded(f"key {key}", bodies, evidence.limits.get(key, 1))
    return found


def lanes_within_capacity(evidence: Evidence) -> Finding:
    """C: at no instant does a lane run more bodies than its capacity."""
    found = Finding("C", "no lane over capacity")
    for lane, bodies in _grouped(evidence.bodies, lambda body: (body.lane,)).items():
        if lane in evidence.capacities:
            found.checked += len(bodies)
            found.violations += _crowded(f"lane {lane}", bodies, evidence.capacities[lane])
    return found


def _grouped(
    bodies: Iterable[Body], names: Callable[[Body], Iterable[str]]
) -> dict[str, list[Body]]:
    groups: dict[str, list[Body]] = {}
    for body in bodies:
        for name in names(body):
            groups.setdefault(name, []).append(body)
    return groups


def _crowded(what: str, bodies: list[Body], most: int) -> Iterator[str]:
    """Sweep over starts and ends; at the same instant an end comes first."""
    moments = sorted(
        [(body.start, 1, body) for body in bodies] + [(body.end, 0, body) for body in bodies],
        key=lambda moment: moment[:2],
    )
    inside: set[tuple[str, int, int]] = set()
    for _, starts, body in moments:
        this = (body.task, body.attempt, body.pid)
        if not starts:
            inside.discard(this)
        elif body.end > body.start:
            inside.add(this)
            if len(inside) > most:
                yield f"{what}: {len(inside)} at once at the start of {_name(body)}, limit {most}"


def terminal_stays(evidence: Evidence) -> Finding:
    """T: once seen ended, a task is never seen otherwise, and none of its bodies starts."""
    found = Finding("T", "terminal stays", len(evidence.seen))
    ended: dict[str, tuple[int, State]] = {}
    for look in sorted(evidence.seen, key=lambda look: look.at):
        first = ended.get(look.task)
        if first is not None and look.state != first[1]:
            found.violations.append(f"{look.task} was {first[1]}, then {look.state or 'not ended'}")
        if first is None and look.state in TERMINAL:
            assert look.state is not None
            ended[look.task] = (look.at, look.state)
    for task in evidence.tasks:
        found.checked += 1
        found.violations += _moved_on(task, ended.get(task.id), evidence)
    return found


def _moved_on(task: Task, seen: tuple[int, State] | None, evidence: Evidence) -> Iterator[str]:
    if seen is not None and task.state is not seen[1]:
        yield f"{task.id} was seen {seen[1]} and is {task.state} now"
    for body in evidence.bodies_of.get(task.id, ()):
        if body.late:
            continue
        if seen is not None and body.start > seen[0]:
            yield f"{_name(body)} started after the task was seen {seen[1]}"
        elif task.ended_at is not None and body.wall > task.ended_at:
            yield f"{_name(body)} started after the task had ended"


def _name(body: Body) -> str:
    return f"{body.task[:SHOWN]} attempt {body.attempt}"
