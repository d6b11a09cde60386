"""What a claim costs with a thousand and with a million tasks waiting.

Two yards, alike but for the size of their backlog, are measured in turns, so that a noisy minute
falls on both. A sample claims ten tasks and finishes them; as many are enqueued again, untimed,
so that the state is steady. Time is noisy; what a claim costs inside the store is less so, and
both are shown: see claim_work.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from bench.claim_work import gauge_of
from bench.figure import Figure, Stage, median, percentile
from bench.ground import ground
from taskyard.domain.lane import LaneChange, Order
from taskyard.domain.node import Lease, NewNode
from taskyard.domain.outcome import Succeeded, Verdict, decide
from taskyard.domain.rate import Rate
from taskyard.domain.retry import Retry
from taskyard.domain.task import Claimed, NewTask
from taskyard.store.port import Claim, ClaimRequest, Store
from taskyard.store.sqlite.candidates import MAX_SET
from taskyard.store.sqlite.claim import MAX_ROUNDS
from taskyard.store.url import open_store

SPEC = ("engine-12",)
BOUND = (
    "A claim with a million tasks queued, or blocked in any way, takes at most twice as long as "
    "with a thousand."
)

CLAIMABLE = 1_000
ROOM = 10
ROUNDS, SAMPLES = 30, 10
GAUGED = 30
CHUNK = 10_000
MOST = 2.0


class Node:
    """A node that serves kind `work`, and numbers its claims."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self.store = store
        self.lease = lease
        self.number = 0

    def request(self, room: int = ROOM) -> ClaimRequest:
        self.number += 1
        return ClaimRequest(lease=self.lease, number=self.number, room=room)

    async def claim(self, room: int = ROOM) -> Claim:
        return await self.store.claim(self.request(room))

    async def finish(self, tasks: Sequence[Claimed]) -> None:
        await self.store.finish(successes(tasks))


def successes(tasks: Sequence[Claimed]) -> list[Verdict]:
    return [decide(task, Succeeded(), Retry.never()) for task in tasks]


class Yard:
    """A backlog, the node that claims from it and one that holds things up."""

    def __init__(self, url: str, backlog: int) -> None:
        self.store = open_store(url)
        self.gauge = gauge_of(self.store)
        self.backlog = backlog
        self.claims: list[float] = []
        self.finishes: list[float] = []
        self.work: list[float] = []

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

    async def gauge_one(self, refill: bool) -> None:
        request = self.node.request()
        work, tasks = await self.gauge.claim_and_finish(request, successes)
        self.work.append(work)
        if refill:
            await self.refill(tasks)

    async def waiting(self) -> int:
        """How many are parked on the one key there is."""
        return sum(key.waiting for key in await self.store.keys(1))


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


async def fifo_queued(yard: Yard, advance: Callable[[float], None]) -> None:
    await yard.store.set_lane("line", LaneChange(order=Order.FIFO), actor="bench")
    await yard.fill(advance, lane="line")


async def fifo_blocked(yard: Yard, advance: Callable[[float], None]) -> None:
    """All behind a head whose key is held."""
    await yard.store.set_lane("line", LaneChange(order=Order.FIFO), actor="bench")
    await yard.store.enqueue([new(lane="other", keys=["k"])])
    assert (await yard.holder.claim(1)).tasks
    await yard.store.enqueue([new(lane="line", keys=["k"])])
    await yard.fill(advance, lane="line")
    await claimable(yard, "other")


async def fair_group(yard: Yard, advance: Callable[[float], None]) -> None:
    """One group has them all, and the most urgent come last; others have one each."""
    await yard.store.set_lane("turns", LaneChange(order=Order.FAIR), actor="bench")
    await yard.fill(advance, lane="turns", group="large")
    await yard.fill(lambda _: None, count=CLAIMABLE, lane="turns", group="large", priority=1)
    tasks = [new(lane="turns", group=f"small {at}") for at in range(CLAIMABLE)]
    await yard.store.enqueue(tasks)


async def key_rate(yard: Yard, advance: Callable[[float], None]) -> None:
    """One of them took the only token for a long time."""
    await yard.store.set_key_rule("k", 10, rate=Rate(1, 36_000), actor="bench")
    await yard.store.enqueue([new(lane="same", keys=["k"])])
    assert (await yard.holder.claim(1)).tasks
    await yard.fill(advance, lane="same", keys=["k"])
    await claimable(yard, "same", "other")


async def lane_rate(yard: Yard, advance: Callable[[float], None]) -> None:
    await yard.store.set_lane("blocked", LaneChange(rate=Rate(1, 36_000)), actor="bench")
    await yard.store.enqueue([new(lane="blocked")])
    assert (await yard.holder.claim(1)).tasks
    await yard.fill(advance, lane="blocked")
    await claimable(yard, "other")


async def unmet(yard: Yard, advance: Callable[[float], None]) -> None:
    """All wait for one task that has not ended."""
    await yard.store.enqueue([new(id="first", lane="blocked")])
    assert (await yard.holder.claim(1)).tasks
    await yard.fill(advance, lane="same", depends_on=["first"])
    await claimable(yard, "same", "other")


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
    "in a fifo lane": (fifo_queued, True),
    "in a fifo lane, its head blocked": (fifo_blocked, True),
    "of one group of a fair lane": (fair_group, True),
    "behind the rate of a key": (key_rate, True),
    "behind the rate of a lane": (lane_rate, True),
    "that depend on one task": (unmet, True),
}


async def measure(stage: Stage) -> list[Figure]:
    figures: list[Figure] = []
    for name, (prepare, refill) in SCENES.items():
        if is_wanted(stage, name):
            async with pair(stage, name, prepare) as yards:
                figures += await compare(stage, name, yards, refill=refill)
    if is_wanted(stage, "of one key, after the parking"):
        figures += await parking(stage)
    return figures


def is_wanted(stage: Stage, name: str) -> bool:
    return stage.options.scenes is None or any(word in name for word in stage.options.scenes)


async def parking(stage: Stage) -> list[Figure]:
    async with pair(stage, "of one key that was free", one_free_key) as yards:
        figures = await park(stage, yards[1])
        await park(stage, yards[0])
        for yard in yards:
            await claimable(yard, "other")
        figures += await compare(stage, "of one key, after the parking", yards, refill=True)
    return figures


@asynccontextmanager
async def pair(stage: Stage, name: str, prepare: Prepare) -> AsyncIterator[tuple[Yard, Yard]]:
    """The small and the large yard, side by side while inside."""
    few, many = stage.options.sizes
    with ground(stage.options.store, stage.folder) as url_of:
        yards = Yard(url_of("small"), few), Yard(url_of("large"), many)
        with stage.steps(f"filling: {name}", few + many) as advance:
            for yard in yards:
                await yard.open()
                await prepare(yard, advance)
        try:
            yield yards
        finally:
            for yard in yards:
                await yard.store.close()
    stage.clear()


async def compare(
    stage: Stage, name: str, yards: tuple[Yard, Yard], *, refill: bool
) -> list[Figure]:
    with stage.steps(f"claiming: {name}", ROUNDS * SAMPLES * 2) as advance:
        for _ in range(ROUNDS):
            for yard in yards:
                for _ in range(SAMPLES):
                    await yard.sample(refill)
                    advance(1)
        for _ in range(GAUGED):
            for yard in yards:
                await yard.gauge_one(refill)
    return list(ratios(name, *yards))


def ratios(name: str, small: Yard, large: Yard) -> tuple[Figure, Figure]:
    few, many = median(small.claims), median(large.claims)
    both = [median(yard.claims) + median(yard.finishes) for yard in (small, large)]
    work = [median(yard.work) for yard in (small, large)]
    return (
        Figure(
            name=f"claim, {large.backlog:,} {name}",
            value=many / few,
            at_most=MOST,
            detail=f"{few:.2f} → {many:.2f} ms; with finish {both[0]:.2f} → {both[1]:.2f} ms",
        ),
        Figure(
            name=f"   with its finish, in {large.gauge.unit}",
            value=work[1] / work[0],
            at_most=MOST,
            detail=f"{work[0]:,.0f} → {work[1]:,.0f}; most {max(large.work):,.0f}",
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
                seen, before = await yard.waiting(), seen
                advance(seen - before)
    await yard.node.finish(behind)
    assert await yard.waiting() == yard.backlog - 1
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
            name=f"parking {yard.backlog:,}, each once",
            value=1e6 * total / yard.backlog,
            unit="µs/task",
            detail=f"{total:.1f} s in all; a claim {median(times):.1f} ms, "
            f"p99 {percentile(times, 99):.1f}, longest {max(times):.1f}",
        ),
    ]
