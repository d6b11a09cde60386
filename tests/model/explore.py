"""Breadth-first search through all worlds: the first violation found has a shortest trace.

Workers are alike and tasks are alike, so worlds that differ only in their numbers are one.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations

from tests.model.invariants import CHANGE_CHECKS, EVERYTHING, STEP_CHECKS, WORLD_CHECKS
from tests.model.protocol import Protocol
from tests.model.world import NOBODY, TERMINAL, Config, Hold, Rules, Step, Task, Worker, World

Wrong = tuple[str, str]  # the invariant, and what is wrong


@dataclass(frozen=True)
class Violation:
    invariant: str
    text: str
    trace: tuple[str, ...]


@dataclass
class Search:
    """What was found: worlds by number, how each was first reached, and who helps to whom."""

    worlds: list[World] = field(default_factory=list)
    came: list[tuple[int, Step] | None] = field(default_factory=list)
    helped_by: list[list[int]] = field(default_factory=list)
    steps: int = 0
    depth: int = 0
    violation: Violation | None = None

    def violated(self, wrong: Wrong, number: int, last: Step | None = None) -> None:
        steps = [last] if last is not None else []
        while (came := self.came[number]) is not None:
            number, step = came
            steps.append(step)
        self.violation = Violation(*wrong, tuple(str(step) for step in reversed(steps)))


def explore(
    config: Config, rules: Rules | None = None, watch: Collection[str] = EVERYTHING
) -> Search:
    """Visit every world, until one of the watched invariants is violated."""
    with _no_collector():
        return _Explorer(Protocol(config, rules or Rules()), watch).run()


@contextlib.contextmanager
def _no_collector() -> Iterator[None]:
    """Worlds are millions of tuples without a cycle among them."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Explorer:
    def __init__(self, protocol: Protocol, watch: Collection[str]) -> None:
        self._protocol = protocol
        self._watch = watch
        self._of_worlds = [(n, check) for n, check in WORLD_CHECKS.items() if n in watch]
        self._of_changes = [(n, check) for n, check in CHANGE_CHECKS.items() if n in watch]
        self._of_steps = [(n, check) for n, check in STEP_CHECKS.items() if n in watch]
        self._numbers: dict[World, int] = {}
        self._found = Search()

    def run(self) -> Search:
        found = self._found
        layer = [self._add(self._protocol.config.start(), None)]
        while layer:
            following: list[int] = []
            for number in layer:
                following += self._expand(number)
                if found.violation is not None:
                    return found
            layer = following
            found.depth += bool(layer)
        if "L" in self._watch:
            self._look_for_dead_ends()
        return found

    def _expand(self, number: int) -> Iterator[int]:
        """Take every step from a world; answers the worlds that are new."""
        found, world = self._found, self._found.worlds[number]
        for step in self._protocol.steps(world):
            found.steps += 1
            wrong = self._wrong_step(world, step)
            if wrong is not None:
                found.violated(wrong, number, step)
                return
            after = self._numbers.get(step.after)
            if after is None:
                after = self._add(step.after, (number, step))
                yield after
                if found.violation is not None:
                    return
            if step.helps and after != number:
                found.helped_by[after].append(number)

    def _add(self, world: World, came: tuple[int, Step] | None) -> int:
        found, number = self._found, len(self._found.worlds)
        for alike in renumbered(world):
            self._numbers[alike] = number
        found.worlds.append(world)
        found.came.append(came)
        found.helped_by.append([])
        for name, check in self._of_worlds:
            text = check(self._protocol, world)
            if text is not None:
                found.violated((name, text), number)
                break
        return number

    def _wrong_step(self, before: World, step: Step) -> Wrong | None:
        for name, of_step in self._of_steps:
            text = of_step(before, step)
            if text is not None:
                return name, text
        if before.tasks is step.after.tasks:
            return None
        for at, (old, new) in enumerate(zip(before.tasks, step.after.tasks, strict=True)):
            if old is new or old == new:
                continue
            for name, of_change in self._of_changes:
                text = of_change(old, new, step)
                if text is not None:
                    return name, f"t{at}: {text}"
        return None

    def _look_for_dead_ends(self) -> None:
        """From every world all tasks can still end, by helpful steps alone.

        If steps are fair to each other, they therefore do end. A task that waits with the
        model's last attempt behind it counts as ended: what follows is beyond the horizon.
        """
        found = self._found
        reaching = [n for n, world in enumerate(found.worlds) if self._settled(world)]
        known = set(reaching)
        while reaching:
            for number in found.helped_by[reaching.pop()]:
                if number not in known:
                    known.add(number)
                    reaching.append(number)
        stuck = next((n for n in range(len(found.worlds)) if n not in known), None)
        if stuck is not None:
            found.violated(("L", "some task can never end"), stuck)

    def _settled(self, world: World) -> bool:
        last = self._protocol.config.attempts
        return all(
            task.state in TERMINAL or (task.owner == NOBODY and task.attempt >= last)
            for task in world.tasks
        )


def renumbered(world: World) -> Iterator[World]:
    """This world under all numberings of its workers and tasks, itself included."""
    for tasks in permutations(range(len(world.tasks))):
        for workers in permutations(range(len(world.workers))):
            yield World(
                tuple(_owned_anew(world.tasks[at], workers) for at in tasks),
                tuple(_holding_anew(world.workers[at], tasks) for at in workers),
                world.held,
            )


@cache
def _owned_anew(task: Task, workers: tuple[int, ...]) -> Task:
    return task if task.owner == NOBODY else task._replace(owner=workers.index(task.owner))


@cache
def _holding_anew(worker: Worker, tasks: tuple[int, ...]) -> Worker:
    return worker._replace(
        bodies=frozenset(Hold(tasks.index(no), attempt) for no, attempt in worker.bodies)
    )
