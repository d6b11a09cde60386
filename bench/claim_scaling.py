"""What a claim costs with a thousand and with a million tasks waiting.

Two yards, alike but for the size of their backlog, are measured in turns, so that a noisy minute
falls on both. A sample claims ten tasks and finishes them; as many are enqueued again, untimed,
so that the state is steady. Time is noisy; the steps SQLite takes for a claim are not, so both
are shown.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import msgspec

from bench.figure import Figure, Stage, median, percentile
from taskyard.domain.lane import LaneChange
from taskyard.domain.node import Lease, NewNode
from taskyard.domain.outcome import Succeeded, decide
from taskyard.domain.retry import Retry
from taskyard.domain.task import Claimed, NewTask
from taskyard.store.port import Claim, ClaimRequest
from taskyard.store.sqlite.claim import MAX_ROUNDS, MAX_SET
from taskyard.store.sqlite.store import SqliteStore
from taskyard.store.sqlite.tx import Tx

SPEC = ("engine-12",)
BOUND = (
    "A claim with a million tasks queued, or blocked in any way, takes at most twice as long as "
    "with a thousand."
)

SMALL, LARGE = 1_000, 1_000_000
CLAIMABLE = 1_000
ROOM = 10
ROUNDS, SAMPLES = 30, 10
CHUNK = 10_000
MOST = 2.0


class Node:
    """A node that serves kind `work`, and numbers its claims."""

    def __init__(self, store: SqliteStore, lease: Lease) -> None:
        self.store = store
        self.lease = lease
        self.number = 0

    async def claim(self, room: int = ROOM) -> Claim:
        self.number += 1
        return await self.store.claim(ClaimRequest(lease=self.lease, number=self.number, room=room))

    async def finish(self, tasks: list[Claimed]) -> None:
        await self.store.finish([decide(task, Succeeded(), Retry.never()) for task in tasks])


class Yard:
    """One file with a backlog, the node that claims from it and one that holds things up."""

    def __init__(self, path: Path, backlog: int) -> None:
        self.store = SqliteStore(str(path))
        self.backlog = backlog
        self.claims: list[float] = []
        self.finishes: list[float] = []
        self.steps: list[float] = []

    async def open(self) -> None:
        await self.store.open()
        self.node = await self._node("bench")
        self.holder = await self._node("holder")

    async def _node(self, name: str) -> Node:
        node = NewNode(id=name, kinds=("work",), slots=10_000, lease_seconds=36_000)
        return Node(self.store, await self.store.register(node))

    async def fill(
        self, advance: Callable[[float], None], *, count: int | None = None, **options: object
    ) -> None:
        left = self.backlog if count is None else count
        while left:
            size = min(left, CHUNK)
            await self.store.enqueue([new(**options) for _ in range(size)])
            advance(size)
            left -= size

    async def refill(self, tasks: list[Claimed]) -> None:
        await self.store.enqueue([new(lane=task.lane) for task in tasks])

    async def sample(self, refill: bool) -> None:
        begun = time.perf_counter()
        claim = await self.node.claim()
        claimed = time.perf_counter()
        await self.node.finish(claim.tasks)
        self.finishes.append(1e3 * (time.perf_counter() - claimed))
        self.claims.append(1e3 * (claimed - begun))
        assert claim.tasks, "nothing was claimed: the scene is wrong"
        if refill:
            await self.refill(claim.tasks)

    async def count_steps(self, refill: bool) -> None:
        """Steps of SQLite for one claim and its finish: the same whatever else the machine does."""
        counted = 0

        def note(event: dict[str, dict[str, int]]) -> None:
            nonlocal counted
            counted += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

        def trace(tx: Tx, to: Callable[[dict[str, dict[str, int]]], None] | None) -> None:
            tx.db.trace_v2(apsw.SQLITE_TRACE_PROFILE if to else 0, to, id="bench")

        await self.store._write(lambda tx: trace(tx, note))
        counted = 0
        claim = await self.node.claim()
        await self.node.finish(claim.tasks)
        self.steps.append(counted)
        await self.store._write(lambda tx: trace(tx, None))
        if refill:
            await self.refill(claim.tasks)


def new(**options: object) -> NewTask:
    return msgspec.convert({"kind": "work", "payload": "{}", **options}, NewTask)


Prepare = Callable[[Yard, Callable[[float], None]], Awaitable[None]]


async def nothing_blocked(yard: Yard, advance: Callable[[float], None]) -> None:
    await yard.fill(advance, lane="same")


async def held_key(yard: Yard, advance: Callable[[float], None]) -> None:
    await yard.store.enqueue([new(lane="same", keys=["k"])])
    assert (await yard.holder.claim(1)).tasks
    await yard.fill(advance, lane="same", keys=["k"])
    await claimable(yard, "same", "other")


async def full_lane(yard: Yard, advance: Callable[[float], None]) -> None:
    await yard.store.set_lane("blocked", LaneChange(capacity=1), actor="bench")
    await yard.store.enqueue([new(lane="blocked")])
    assert (await yard.holder.claim(1)).tasks
    await yard.fill(advance, lane="blocked")
    await claimable(yard, "other")


async def paused_lane(yard: Yard, advance: Callable[[float], None]) -> None:
    await yard.store.set_lane("blocked", LaneChange(paused=True), actor="bench")
    await yard.fill(advance, lane="blocked")
    await claimable(yard, "other")


async def unserved_kind(yard: Yard, advance: Callable[[float], None]) -> None:
    await yard.fill(advance, lane="same", kind="nobody")
    await claimable(yard, "same", "other")


async def draining_key(yard: Yard, advance: Callable[[float], None]) -> None:
    """Each finish hands the key to the next of those who wait for it."""
    await yard.store.enqueue([new(lane="same", keys=["k"])])
    [first] = (await yard.node.claim(1)).tasks
    await yard.fill(advance, lane="same", keys=["k"])
    await yard.node.finish([first])


async def claimable(yard: Yard, *lanes: str) -> None:
    """Behind the blocked ones, so that a claim which looks at them must pass them all."""
    for lane in lanes:
        await yard.fill(lambda _: None, count=CLAIMABLE, lane=lane)


SCENES: dict[str, tuple[Prepare, bool]] = {
    "queued, nothing blocked": (nothing_blocked, True),
    "behind one held key": (held_key, True),
    "behind one key, handed on": (draining_key, False),
    "in a full lane": (full_lane, True),
    "in a paused lane": (paused_lane, True),
    "of a kind nobody serves": (unserved_kind, True),
}


async def measure(stage: Stage) -> list[Figure]:
    figures: list[Figure] = []
    for name, (prepare, refill) in SCENES.items():
        yards = await pair(stage, name, prepare)
        figures += await compare(stage, name, yards, refill=refill)
        await leave(stage, yards)
    yards = await pair(stage, "of one key that was free", one_free_key)
    figures += await park(stage, yards[1])
    await park(stage, yards[0])
    for yard in yards:
        await claimable(yard, "other")
    figures += await compare(stage, "of one key, after the parking", yards, refill=True)
    await leave(stage, yards)
    return figures


async def pair(stage: Stage, name: str, prepare: Prepare) -> tuple[Yard, Yard]:
    small = Yard(stage.folder / "small.db", SMALL)
    large = Yard(stage.folder / "large.db", LARGE)
    with stage.steps(f"filling: {name}", SMALL + LARGE) as advance:
        for yard in (small, large):
            await yard.open()
            await prepare(yard, advance)
    return small, large


async def leave(stage: Stage, yards: tuple[Yard, Yard]) -> None:
    for yard in yards:
        await yard.store.close()
    stage.clear()


async def compare(
    stage: Stage, name: str, yards: tuple[Yard, Yard], *, refill: bool
) -> list[Figure]:
    with stage.steps(f"claiming: {name}", ROUNDS * SAMPLES * 2) as advance:
        for yard in yards:
            await yard.count_steps(refill)
        for _ in range(ROUNDS):
            for yard in yards:
                for _ in range(SAMPLES):
                    await yard.sample(refill)
                    advance(1)
        for yard in yards:
            await yard.count_steps(refill)
    return list(ratios(name, *yards))


def ratios(name: str, small: Yard, large: Yard) -> tuple[Figure, Figure]:
    few, many = median(small.claims), median(large.claims)
    both = [median(yard.claims) + median(yard.finishes) for yard in (small, large)]
    steps = [max(yard.steps) for yard in (small, large)]
    return (
        Figure(
            name=f"claim, a million {name}",
            value=many / few,
            at_most=MOST,
            detail=f"{few:.2f} → {many:.2f} ms; with finish {both[0]:.2f} → {both[1]:.2f} ms",
        ),
        Figure(
            name="   with its finish, in steps of SQLite",
            value=steps[1] / steps[0],
            at_most=MOST,
            detail=f"{steps[0]:,.0f} → {steps[1]:,.0f}",
        ),
    )


# --- tasks of one key, enqueued while it was free ---


async def one_free_key(yard: Yard, advance: Callable[[float], None]) -> None:
    await yard.fill(advance, lane="same", keys=["k"])
    await claimable(yard, "same")


async def park(stage: Stage, yard: Yard) -> list[Figure]:
    """One gets the key; every other is parked by the claim that comes across it."""
    assert len((await yard.holder.claim(1)).tasks) == 1
    times: list[float] = []
    behind: list[Claimed] = []
    seen = 0
    with stage.steps("claims that park what they come across", yard.backlog - 1) as advance:
        while not behind:
            begun = time.perf_counter()
            claim = await yard.node.claim()
            times.append(1e3 * (time.perf_counter() - begun))
            behind = claim.tasks
            if len(times) % 50 == 0:
                seen, before = await yard.store._read(count_parked), seen
                advance(seen - before)
    await yard.node.finish(behind)
    assert await yard.store._read(count_parked) == yard.backlog - 1
    total = sum(times) / 1e3
    return [
        Figure(
            name="tasks a claim parks on its way",
            value=(yard.backlog - 1) / len(times),
            unit="",
            at_most=MAX_ROUNDS * MAX_SET,
            detail=f"{len(times):,} claims",
        ),
        Figure(
            name="parking a million, each once",
            value=1e6 * total / yard.backlog,
            unit="µs/task",
            detail=f"{total:.1f} s in all; a claim {median(times):.1f} ms, "
            f"p99 {percentile(times, 99):.1f}, longest {max(times):.1f}",
        ),
    ]


def count_parked(tx: Tx) -> int:
    return int(tx.value("SELECT count(*) FROM taskyard_tasks WHERE parked_on IS NOT NULL") or 0)
