"""What must hold in every world, and across every step.

A check answers with what is wrong, or None. There are checks of a world, of one task's change in
a step, and of a step as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from taskyard.domain.state import TRANSITIONS
from tests.model.protocol import REGISTER, RELEASE, RETIRE, REVIVE, Protocol
from tests.model.world import NOBODY, RUNNING, TERMINAL, Step, Task, World, accepted

WorldCheck = Callable[[Protocol, World], str | None]
ChangeCheck = Callable[[Task, Task, Step], str | None]
StepCheck = Callable[[World, Step], str | None]

TABLE = frozenset((a.value, b.value) for a, after in TRANSITIONS.items() for b in after)


# --- of a world ---


def one_accepted(protocol: Protocol, world: World) -> str | None:
    """No two holders of a task would both be believed."""
    for at, task in enumerate(world.tasks):
        believed = sum(
            hold.task == at and protocol.rules.fence(task, hold.attempt)
            for worker in world.workers
            for hold in worker.bodies
        )
        if believed > 1:
            return f"{believed} holders of t{at} would be believed"
    return None


def most_at_once(world: World) -> int:
    """In the store's eyes, or really: bodies of workers that renew in time."""
    bodies = sum(len(worker.bodies) for worker in world.workers if worker.on_time)
    return max(world.running, bodies)


def key_limit(protocol: Protocol, world: World) -> str | None:
    most = most_at_once(world)
    return f"{most} hold the key" if most > protocol.config.key_limit else None


def capacity(protocol: Protocol, world: World) -> str | None:
    most = most_at_once(world)
    return f"{most} run in the lane" if most > protocol.config.capacity else None


def leased(_: Protocol, world: World) -> str | None:
    """A running task has a lease that somebody can renew or rescue; no other task has one."""
    for at, task in enumerate(world.tasks):
        if (task.state == RUNNING) != (task.owner != NOBODY):
            return f"t{at} is {task.state} with owner {task.owner}"
        if task.owner != NOBODY and world.workers[task.owner].lease == "gone":
            return f"t{at} runs under a lease that is gone"
    return None


def room(_: Protocol, world: World) -> str | None:
    if world.held != world.running:
        return f"the key is held {world.held} times, {world.running} run"
    return None


def budget(protocol: Protocol, world: World) -> str | None:
    for at, task in enumerate(world.tasks):
        if task.charged > protocol.config.max_charged:
            return f"t{at} is charged {task.charged} times"
    return None


def own_bodies(_: Protocol, world: World) -> str | None:
    """A worker that renews in time runs accepted attempts only, so bodies do not overlap."""
    for at, worker in enumerate(world.workers):
        for hold in worker.bodies if worker.on_time else ():
            task = world.tasks[hold.task]
            if not accepted(task, hold.attempt) or task.owner != at:
                return f"w{at} renews in time, but its {hold} is not accepted"
    return None


# --- of one task's change ---


def terminal_stays(old: Task, new: Task, step: Step) -> str | None:
    if old.state in TERMINAL and step.verb != REVIVE:
        return f"it was {old.state} and was written again as {new.state}"
    return None


def by_the_table(old: Task, new: Task, step: Step) -> str | None:
    allowed = old.state == new.state or (old.state, new.state) in TABLE or step.verb == REVIVE
    return None if allowed else f"it went from {old.state} to {new.state}"


def attempt_grows(old: Task, new: Task, _: Step) -> str | None:
    return None if new.attempt >= old.attempt else f"attempt {old.attempt} became {new.attempt}"


def ends_once(old: Task, new: Task, step: Step) -> str | None:
    """No attempt ends twice, whoever ends it."""
    ends = new.ended != old.ended or step.hold is not None or old.state == RUNNING != new.state
    attempt = old.attempt if step.hold is None else step.hold.attempt
    return f"attempt {attempt} ended twice" if ends and attempt in old.ended else None


def given_back_uncharged(old: Task, new: Task, step: Step) -> str | None:
    if step.verb in (RELEASE, RETIRE) and new.charged != old.charged:
        return "it was given back, and charged"
    return None


def asks_are_kept(old: Task, new: Task, _: Step) -> str | None:
    if old.asked and not new.asked and new.state not in TERMINAL:
        return f"it was asked to cancel and is {new.state}, the ask forgotten"
    return None


# --- of a step ---


def stale_changes_nothing(before: World, step: Step) -> str | None:
    if step.hold is None or accepted(before.tasks[step.hold.task], step.hold.attempt):
        return None
    if (before.tasks, before.held) != (step.after.tasks, step.after.held):
        return f"{step.hold} was stale and changed the store"
    return None


def lease_stays_gone(before: World, step: Step) -> str | None:
    if step.worker is None or before.workers[step.worker].lease != "gone":
        return None
    if step.after.workers[step.worker].lease != "gone" and step.verb != REGISTER:
        return f"the lease of w{step.worker} was gone and came back"
    return None


WORLD_CHECKS: Mapping[str, WorldCheck] = {
    "S": one_accepted,
    "M": key_limit,
    "C": capacity,
    "L": leased,  # its second half needs the whole graph: see explore.py
    "room": room,
    "budget": budget,
    "bodies": own_bodies,
}
CHANGE_CHECKS: Mapping[str, ChangeCheck] = {
    "T": terminal_stays,
    "table": by_the_table,
    "attempt": attempt_grows,
    "once": ends_once,
    "charge": given_back_uncharged,
    "asks": asks_are_kept,
}
STEP_CHECKS: Mapping[str, StepCheck] = {"stale": stale_changes_nothing, "lease": lease_stays_gone}
EVERYTHING: tuple[str, ...] = (*WORLD_CHECKS, *CHANGE_CHECKS, *STEP_CHECKS)
