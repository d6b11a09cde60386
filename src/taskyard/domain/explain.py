"""Why a task does not run: the conditions of a claim, one by one.

Stores gather the facts; what they mean is said here, once.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from taskyard.domain.clock import Instant, seconds
from taskyard.domain.lane import Lane, Order
from taskyard.domain.node import NodeState
from taskyard.domain.state import State
from taskyard.domain.task import Task

FAR_BACK = 10_000  # how many tasks before one are counted at most


class Condition(StrEnum):
    """The letters of engine-8."""

    STATE = "a"
    BATCH = "b"
    LANE = "c"
    KEYS = "d"
    NODE = "e"
    ORDER = "f"


class Wait(msgspec.Struct, frozen=True):
    condition: Condition
    code: str
    text: str
    figures: dict[str, int | str | list[str]] = {}


class Explanation(msgspec.Struct, frozen=True):
    id: str
    state: State
    waits: tuple[Wait, ...]

    @property
    def text(self) -> str:
        if self.waits:
            return "; ".join(wait.text for wait in self.waits)
        if self.state is State.QUEUED:
            return "nothing keeps it: it is next"
        return f"it is not waiting: it is {self.state}"


class FullKey(msgspec.Struct, frozen=True):
    """A key without room: its holders have reached the limit, or its rate has no token left."""

    name: str
    limit: int
    holders: list[str]
    opens_at: Instant | None = None  # when its rate has the next token; None: it has one now


class ServingNode(msgspec.Struct, frozen=True):
    """A live node that serves the task's route."""

    state: NodeState
    free: int


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a store knows about a task that may be waiting."""

    now: Instant
    task: Task
    lane: Lane
    yard_paused: bool
    full_keys: list[FullKey]
    nodes: list[ServingNode]
    before: int  # ready tasks of its lane that come before it, at most FAR_BACK
    lane_opens_at: Instant | None = None  # when the lane's rate has a token; None: it has one now
    unmet: list[str] = []  # ids of the tasks it depends on that have not ended, some of them
    head: str | None = None  # of a fifo lane, if that is another task


def explain(facts: Facts) -> Explanation:
    """Every condition that keeps the task waiting; its place only if nothing else does."""
    match facts.task.state:
        case State.PENDING:
            waits: list[Wait] = _dependencies(facts) or [_not_due(facts)]
        case State.PAUSED:
            waits = [Wait(Condition.STATE, "paused", "it is paused; resume it")]
        case State.QUEUED:
            waits = [*_deadline(facts), *_lane(facts), *_keys(facts), *_nodes(facts)]
            waits = waits or _order(facts)
        case _:
            waits = []
    return Explanation(facts.task.id, facts.task.state, tuple(waits))


def _dependencies(facts: Facts) -> list[Wait]:
    count = facts.task.waits_for
    if not count:
        return []
    names = ", ".join(facts.unmet[:3]) + (", …" if count > 3 else "")
    text = f"it depends on {count} task(s) that have not ended: {names}"
    return [Wait(Condition.STATE, "dependencies", text, {"tasks": facts.unmet, "count": count})]


def _not_due(facts: Facts) -> Wait:
    task = facts.task
    after = " after a failed attempt" if task.failures else ""
    text = "it is due and about to be queued"
    if task.run_at > facts.now:
        text = f"it is due in {_time_to(facts, task.run_at)}{after}"
    return Wait(Condition.STATE, "not_due", text, {"run_at": task.run_at})


def _deadline(facts: Facts) -> list[Wait]:
    deadline = facts.task.deadline
    if deadline is None or deadline > facts.now:
        return []
    text = "its deadline has passed: it is about to fail"
    return [Wait(Condition.STATE, "expired", text, {"deadline": deadline})]


def _lane(facts: Facts) -> list[Wait]:
    lane, waits = facts.lane, []
    if facts.yard_paused:
        waits.append(Wait(Condition.LANE, "yard_paused", "the yard is paused"))
    if lane.paused:
        why = f" ({lane.paused_reason})" if lane.paused_reason else ""
        left = "" if lane.paused_until is None else f" for {_time_to(facts, lane.paused_until)}"
        text = f"lane {lane.name} is paused{left}{why}"
        waits.append(Wait(Condition.LANE, "lane_paused", text, {"lane": lane.name}))
    if lane.capacity is not None and lane.running >= lane.capacity:
        text = f"lane {lane.name} is full: {lane.running} of {lane.capacity} running"
        waits.append(
            Wait(
                Condition.LANE,
                "lane_full",
                text,
                {"lane": lane.name, "running": lane.running, "capacity": lane.capacity},
            )
        )
    if facts.lane_opens_at is not None:
        left = _time_to(facts, facts.lane_opens_at)
        text = f"the rate of lane {lane.name} lets the next one start in {left}"
        waits.append(
            Wait(
                Condition.LANE,
                "lane_rate",
                text,
                {"lane": lane.name, "opens_at": facts.lane_opens_at},
            )
        )
    return waits


def _time_to(facts: Facts, instant: Instant) -> str:
    """To a tenth of a second, or beyond two minutes in two units: 1 h 5 min."""
    left = max(0.0, seconds(instant - facts.now))
    if left < 120:
        return f"{left:.1f} s"
    units = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
    size, unit, small, below = next(one for one in units if left >= one[0])
    whole, rest = divmod(int(left), size)
    return f"{whole} {unit} {rest // small} {below}" if rest >= small else f"{whole} {unit}"


def _keys(facts: Facts) -> list[Wait]:
    return [_full(facts, key) for key in facts.full_keys]


def _full(facts: Facts, key: FullKey) -> Wait:
    if len(key.holders) < key.limit and key.opens_at is not None:
        text = f"the rate of key {key.name} lets the next one start in "
        return Wait(
            Condition.KEYS,
            "key_rate",
            text + _time_to(facts, key.opens_at),
            {"key": key.name, "opens_at": key.opens_at},
        )
    by = f"held by {', '.join(key.holders[:3])}" if key.holders else "open to nobody"
    return Wait(
        Condition.KEYS,
        "key_full",
        f"key {key.name} is full (limit {key.limit}): {by}",
        {"key": key.name, "limit": key.limit, "holders": key.holders},
    )


def _nodes(facts: Facts) -> list[Wait]:
    task, nodes = facts.task, facts.nodes
    if not nodes:
        needs = f" with {', '.join(task.requires)}" if task.requires else ""
        text = f"no live worker serves kind {task.kind}{needs}"
        return [Wait(Condition.NODE, "no_node", text, {"kind": task.kind})]
    ready = [node for node in nodes if node.state is NodeState.READY]
    if not ready:
        text = f"no worker that serves kind {task.kind} is ready"
        return [Wait(Condition.NODE, "no_ready_node", text, {"nodes": len(nodes)})]
    if not any(node.free > 0 for node in ready):
        text = f"all slots of the {len(nodes)} worker(s) that serve kind {task.kind} are taken"
        return [Wait(Condition.NODE, "nodes_full", text, {"nodes": len(nodes)})]
    return []


def _order(facts: Facts) -> list[Wait]:
    before = facts.before
    if facts.lane.order is Order.FIFO and facts.head is not None:
        text = f"lane {facts.task.lane} is first in, first out, and {facts.head} is its head"
        return [Wait(Condition.ORDER, "not_head", text, {"head": facts.head, "before": before})]
    if not before:
        return []
    many = f"{before}" if before < FAR_BACK else f"at least {FAR_BACK}"
    text = f"{many} task(s) come before it in lane {facts.task.lane}"
    return [Wait(Condition.ORDER, "not_first", text, {"before": before})]
