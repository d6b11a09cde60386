"""One crash run: workers under load, killed again and again, then drained and checked."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from taskyard.domain.lane import LaneChange
from taskyard.domain.points import Point
from taskyard.domain.state import TERMINAL
from taskyard.domain.task import Task
from taskyard.store.port import Store
from taskyard.store.url import open_store
from tests.crash.crew import Crew, Member
from tests.crash.enqueuer import insist
from tests.crash.evidence import Evidence, NodeSeen, Seen, collect
from tests.crash.finding import Finding
from tests.crash.invariants import check
from tests.crash.kinds import CAPACITY, LANE, SHARED, SHARED_LIMIT
from tests.crash.places import PLACES
from tests.crash.record import What, boot_now
from tests.crash.worker import LEASE

DRAIN_SECONDS = 120.0
LOOK_EVERY = 0.25
SAMPLE = 300


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    kills: int
    seed: int
    store: str = "sqlite"
    server_kills: int = 3  # where there is a server
    workers: int = 4
    enqueuers: int = 2
    pause: float = 0.3  # seconds between two kills, on average
    tasks_per_kill: int = 100
    keyed: float = 0.4  # of the tasks hold keys
    linked: float = 0.25  # of the tasks depend on others
    armed: float = 0.25  # of the workers kill themselves at a named point
    frozen: float = 0.0  # of the blows stop a worker for a while instead of killing it
    minutes: float | None = None  # goes on at least so long


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    findings: list[Finding]
    kills: int
    server_kills: int
    freezes: int
    tasks: int
    seconds: float
    drained_in: float
    states: dict[str, int]
    exits: dict[str, int]  # how workers ended


class Progress(msgspec.Struct, frozen=True):
    kills: int
    text: str


class Run:
    def __init__(
        self, plan: Plan, folder: Path, tell: Callable[[Progress], None] = lambda _: None
    ) -> None:
        self._plan = plan
        self._dice = random.Random(plan.seed)
        self._place = PLACES[plan.store](folder)
        self._crew = Crew(folder, url=self._place.url, log=True)
        self._store = open_store(self._crew.url)
        self._tell = tell
        self._kills = 0
        self._server_kills = 0
        self._freezes = 0
        self._thawing: list[asyncio.Task[None]] = []
        self._exits: Counter[str] = Counter()
        self._seen: list[Seen] = []
        self._nodes: list[NodeSeen] = []
        self._ids: list[str] = []

    async def run(self) -> Outcome:
        began = time.monotonic()
        looking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            await self._prepare()
            looking = asyncio.create_task(self._look_around())
            workers = await self._assault(began)
            drained = time.monotonic()
            await self._drain(workers)
            drained_in = time.monotonic() - drained
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            tasks, audit = await collect(self._store)
        finally:
            looking.cancel()
            try:
                self._crew.stop()
                await self._store.close()
            finally:
                self._place.remove()
        evidence = Evidence(
            lines=self._crew.lines(),
            tasks=tasks,
            audit=audit,
            seen=self._seen,
            nodes=self._nodes,
            limits={SHARED: SHARED_LIMIT},
            capacities={LANE: CAPACITY},
            lease=LEASE,
        )
        return Outcome(
            findings=check(evidence),
            kills=self._kills,
            server_kills=self._server_kills,
            freezes=self._freezes,
            tasks=len(tasks),
            seconds=time.monotonic() - began,
            drained_in=drained_in,
            states=_endings(tasks),
            exits=dict(self._exits),
        )

    async def _prepare(self) -> None:
        self._place.start()
        await self._store.open()
        await self._store.set_lane(LANE, LaneChange(capacity=CAPACITY), actor="crash")
        await self._store.set_key_rule(SHARED, SHARED_LIMIT, actor="crash")

    # --- killing ---

    async def _assault(self, began: float) -> list[Member]:
        plan = self._plan
        enqueuers = [
            self._crew.enqueuer(f"{plan.seed}-{number}", keyed=plan.keyed, linked=plan.linked)
            for number in range(plan.enqueuers)
        ]
        workers = [self._start(number) for number in range(plan.workers)]
        # One is seldom hit: whoever rescues by lease has had contact for a lease itself.
        weights = [1, *(8 for _ in workers[1:])]
        while not self._enough(began):
            await asyncio.sleep(self._dice.expovariate(1 / plan.pause))
            self._replace_dead(workers)
            assert all(member.alive for member in enqueuers), "an enqueuer has ended"
            [victim] = self._dice.choices(workers, weights)
            if self._dice.random() < plan.frozen:
                self._freeze(victim)
            else:
                victim.kill()
            self._replace_dead(workers)
            if self._server_is_next():
                await self._kill_server()
        await asyncio.gather(*self._thawing)
        for member in enqueuers:
            member.terminate()
        for member in enqueuers:
            await asyncio.to_thread(member.wait)
        return workers

    def _server_is_next(self) -> bool:
        """Evenly over the run."""
        wanted = self._plan.server_kills if self._place.blows else 0
        part = self._plan.kills / (wanted + 1)
        return self._server_kills < wanted and self._kills >= part * (self._server_kills + 1)

    async def _kill_server(self) -> None:
        """Down for longer or shorter than a lease, as it comes."""
        blows = self._place.blows
        how = blows[self._server_kills % len(blows)]
        self._server_kills += 1
        await asyncio.to_thread(self._place.stop, how)
        await asyncio.sleep(self._dice.uniform(0.0, 1.5 * LEASE))
        await asyncio.to_thread(self._place.start)

    def _freeze(self, victim: Member) -> None:
        """For less than a lease or for more, as it comes."""
        if victim.freeze():
            self._freezes += 1
            seconds = self._dice.uniform(0.0, 2 * LEASE)
            self._thawing.append(asyncio.create_task(self._thaw(victim, seconds)))

    async def _thaw(self, victim: Member, seconds: float) -> None:
        await asyncio.sleep(seconds)
        victim.thaw()

    def _enough(self, began: float) -> bool:
        plan = self._plan
        wanted = plan.kills * plan.tasks_per_kill
        long_enough = plan.minutes is None or time.monotonic() - began >= plan.minutes * 60
        return self._kills >= plan.kills and len(self._ids) >= wanted and long_enough

    def _start(self, number: int) -> Member:
        armed: tuple[Point, int] | None = None
        if self._dice.random() < self._plan.armed and self._kills < self._plan.kills:
            armed = (self._dice.choice(list(Point)), self._dice.randint(1, 60))
        return self._crew.worker(f"w{number}", kill_at=armed)

    def _replace_dead(self, workers: list[Member]) -> None:
        for number, member in enumerate(workers):
            code = member.exit_code
            if code is None:
                continue
            self._exits[_how(code)] += 1
            self._kills += code < 0
            self._crew.forget(member)
            workers[number] = self._start(number)

    # --- looking ---

    async def _look_around(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(LOOK_EVERY)

    async def _look(self) -> None:
        fresh = self._crew.lines()
        self._ids = [line.task for line in fresh if line.what is What.SAVED]
        chosen = self._dice.sample(self._ids, min(SAMPLE, len(self._ids)))
        endings = {
            ending.id: ending.state for ending in await insist(lambda: self._store.endings(chosen))
        }
        now = boot_now()
        self._seen += [Seen(now, task_id, endings.get(task_id)) for task_id in chosen]
        asked = boot_now()
        self._nodes += [
            NodeSeen(asked, node.process.pid, node.running)
            for node in await insist(self._store.nodes)
            if node.process is not None
        ]
        text = f"{len(self._ids):,} tasks, {await _open_tasks(self._store):,} not ended"
        self._tell(Progress(self._kills, text))

    async def _drain(self, workers: list[Member]) -> None:
        """No more kills: everything must end by itself, then the workers in good order."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while await _open_tasks(self._store) and time.monotonic() < deadline:
            self._replace_dead(workers)
            await asyncio.sleep(0.05)
        for member in workers:
            if member.alive:
                member.terminate()
        for member in workers:
            await asyncio.to_thread(member.wait)
            self._exits[_how(member.exit_code or 0)] += 1


async def _open_tasks(store: Store) -> int:
    counts = await insist(store.counts)
    return sum(count for state, count in counts.items() if state not in TERMINAL)


def _endings(tasks: list[Task]) -> dict[str, int]:
    return dict(Counter(f"{task.state} ({task.reason})" for task in tasks).most_common())


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
