"""How runners share the bodies of coroutines."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from taskyard.domain.outcome import Outcome, Released, Snoozed, Stopped, Succeeded
from taskyard.domain.task import Claimed
from taskyard.engine.context import Context, Desk
from taskyard.engine.executor import PUT_OFF, TURN, CoroutineExecutor, ThreadExecutor
from taskyard.engine.job import Job, Stop
from taskyard.engine.log import logger
from taskyard.engine.registry import Kind

pytestmark = pytest.mark.spec("engine-33")

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


def job_of(no: int, function: Any) -> Job:
    kind = Kind("work", function)
    claimed = Claimed(no, str(no), kind.name, "default", 1, 0, 4, 60.0, f'{{"n":{no}}}')
    loop = asyncio.get_running_loop()
    return Job(claimed, kind, lambda of: Context(of, cast(Desk, None), logger("test"), loop))


class Bodies:
    """An executor, and what became of the jobs that were given to it."""

    def __init__(self) -> None:
        self.executor = CoroutineExecutor(self._done)
        self.outcomes: dict[int, Outcome] = {}
        self.on_done: Callable[[Job], None] = lambda _: None
        self._enough = asyncio.Event()
        self._wanted = 0

    def _done(self, job: Job, outcome: Outcome) -> None:
        self.outcomes[job.claimed.no] = outcome
        self.on_done(job)
        if len(self.outcomes) >= self._wanted:
            self._enough.set()

    def start(self, no: int, function: Any) -> Job:
        job = job_of(no, function)
        self.executor.start(job)
        return job

    async def ended(self, count: int) -> None:
        self._wanted = count
        if len(self.outcomes) < count:
            self._enough.clear()
            async with asyncio.timeout(20):
                await self._enough.wait()

    @property
    def runners(self) -> list[asyncio.Task[Any]]:
        return [task for task in asyncio.all_tasks() if task.get_name() == "taskyard-runner"]


@pytest.fixture
async def bodies() -> AsyncIterator[Bodies]:
    bodies = Bodies()
    yield bodies
    async with asyncio.timeout(20):
        await bodies.executor.stop()
    assert not bodies.runners


async def test_bodies_that_do_not_suspend_need_few_runners_and_keep_their_order(
    bodies: Bodies,
) -> None:
    order: list[int] = []

    async def work(n: int) -> None:
        order.append(n)

    def go_on(job: Job) -> None:
        if job.claimed.no < 950:
            bodies.start(job.claimed.no + 50, work)

    bodies.on_done = go_on
    for no in range(50):
        bodies.start(no, work)
    await bodies.ended(1000)
    assert order == list(range(1000))
    assert len(bodies.runners) <= 2


async def test_bodies_that_wait_all_run_at_once(bodies: Bodies) -> None:
    go = asyncio.Event()
    inside: set[int] = set()
    all_inside = asyncio.Event()

    async def work(n: int) -> None:
        inside.add(n)
        if len(inside) == 60:
            all_inside.set()
        await go.wait()

    for no in range(60):
        bodies.start(no, work)
    async with asyncio.timeout(20):
        await all_inside.wait()
    go.set()
    await bodies.ended(60)
    assert set(bodies.outcomes.values()) == {Succeeded()}


async def test_one_that_waits_holds_up_none_behind_it(bodies: Bodies) -> None:
    go = asyncio.Event()

    async def waits(n: int) -> None:
        await go.wait()

    async def quick(n: int) -> None: ...

    bodies.start(0, quick)
    await bodies.ended(1)  # as far as was seen, bodies do not suspend
    for no in range(1, 11):
        bodies.start(no, waits if no % 2 else quick)
    await bodies.ended(6)
    assert sorted(bodies.outcomes) == [0, 2, 4, 6, 8, 10]
    go.set()
    await bodies.ended(11)


async def test_the_loop_has_its_turn_between_bodies(bodies: Bodies) -> None:
    """However many of them there are, and though none of them suspends."""
    turns = 0

    async def work(n: int) -> None:
        begun = time.monotonic()
        while time.monotonic() - begun < TURN:
            pass

    def tick() -> None:
        nonlocal turns
        turns += 1
        if len(bodies.outcomes) < 30:
            asyncio.get_running_loop().call_soon(tick)

    for no in range(30):
        bodies.start(no, work)
    tick()
    await bodies.ended(30)
    assert turns >= 30


async def test_a_variable_that_one_body_sets_is_not_seen_by_the_next(bodies: Bodies) -> None:
    seen: list[str] = []

    async def work(n: int) -> None:
        seen.append(WHO.get())
        WHO.set(str(n))

    for no in range(20):
        bodies.start(no, work)
    await bodies.ended(20)
    assert seen == ["nobody"] * 20


async def test_nor_by_one_that_its_end_makes_room_for(bodies: Bodies) -> None:
    seen: list[str] = []

    async def work(n: int) -> None:
        seen.append(WHO.get())
        WHO.set(str(n))

    def go_on(job: Job) -> None:
        if job.claimed.no < 5:
            bodies.start(job.claimed.no + 1, work)

    bodies.on_done = go_on
    bodies.start(1, work)
    await bodies.ended(5)
    assert seen == ["nobody"] * 5


class Odd:
    """As an array or an expression of an ORM is: it cannot be asked whether it equals another."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("more than one truth value")


async def test_values_of_variables_are_not_compared(bodies: Bodies) -> None:
    what: contextvars.ContextVar[Odd] = contextvars.ContextVar("what")
    token = what.set(Odd())
    odd, seen = CoroutineExecutor(bodies._done), []

    async def work(n: int) -> None:
        seen.append(what.get())
        what.set(Odd())

    for no in range(3):
        odd.start(job_of(no, work))
    await bodies.ended(3)
    await odd.stop()
    assert list(bodies.outcomes.values()) == [Succeeded()] * 3
    assert all(value is what.get() for value in seen)
    what.reset(token)


async def test_what_a_body_ties_to_its_task_is_not_met_by_the_next(bodies: Bodies) -> None:
    """As a scoped session of an ORM is: kept by the task of asyncio that it was made in."""
    sessions: dict[asyncio.Task[Any] | None, int] = {}
    closed: list[int] = []

    async def work(n: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert sessions.setdefault(task, n) == n
        task.add_done_callback(lambda _: closed.append(n))
        await asyncio.sleep(0)

    for no in range(5):
        bodies.start(no, work)
        await bodies.ended(no + 1)
    assert list(bodies.outcomes.values()) == [Succeeded()] * 5
    await bodies.executor.stop()
    await asyncio.sleep(0)
    assert sorted(closed) == [0, 1, 2, 3, 4]


async def test_one_that_is_asked_to_stop_before_it_begins_does_not_begin(bodies: Bodies) -> None:
    jobs: dict[int, Job] = {}
    begun: list[int] = []

    async def work(n: int) -> None:
        begun.append(n)
        for other in (2, 3):
            jobs[other].ask(Stop.DRAIN if other == 2 else Stop.CANCEL)

    for no in range(1, 4):
        jobs[no] = bodies.start(no, work)
    await bodies.ended(3)
    assert begun == [1]
    assert bodies.outcomes == {1: Succeeded(), 2: Released(), 3: Stopped()}


async def test_stopping_waits_for_runners_that_are_on_their_way(bodies: Bodies) -> None:
    async def work(n: int) -> None: ...

    for no in range(5):
        bodies.start(no, work)
    async with asyncio.timeout(20):
        await bodies.executor.stop()
    assert len(bodies.outcomes) == 5


async def test_a_cancel_reaches_its_own_body_only(bodies: Bodies) -> None:
    go = asyncio.Event()
    inside = 0
    all_inside = asyncio.Event()

    async def work(n: int) -> None:
        nonlocal inside
        inside += 1
        if inside == 10:
            all_inside.set()
        await go.wait()

    jobs = [bodies.start(no, work) for no in range(10)]
    await all_inside.wait()
    for job in jobs[::2]:
        job.ask(Stop.DRAIN)
    await bodies.ended(5)
    assert bodies.outcomes == {no: Released() for no in range(0, 10, 2)}
    go.set()
    await bodies.ended(10)
    assert [bodies.outcomes[no] for no in range(1, 10, 2)] == [Succeeded()] * 5


@pytest.mark.parametrize("idle", [True, False], ids=["that was idle", "that was made for it"])
async def test_the_jobs_of_a_runner_that_is_cut_down_on_its_way_are_done(
    bodies: Bodies, idle: bool
) -> None:
    async def work(n: int) -> None: ...

    if idle:
        bodies.start(0, work)
        await bodies.ended(1)
    for no in range(1, 4):
        bodies.start(no, work)
    [runner] = bodies.runners
    runner.cancel()
    await bodies.ended(4 if idle else 3)


async def test_a_job_whose_end_cannot_be_told_does_not_hold_up_the_others(bodies: Bodies) -> None:
    def breaks(job: Job) -> None:
        if job.claimed.no == 1:
            raise ValueError("a bug")

    async def work(n: int) -> None: ...

    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    bodies.on_done = breaks
    for no in range(5):
        bodies.start(no, work)
    await bodies.ended(5)


async def test_threads_tell_of_every_end_whoever_calls_the_loop() -> None:
    ends = 0
    all_ended = asyncio.Event()

    def work(n: int) -> None: ...

    def done(job: Job, outcome: Outcome) -> None:
        nonlocal ends
        assert outcome == Succeeded()
        ends += 1
        if job.claimed.no < 1900:
            executor.start(job_of(job.claimed.no + 100, work))
        if ends == 2000:
            all_ended.set()

    executor = ThreadExecutor(done, asyncio.get_running_loop())
    for no in range(100):
        executor.start(job_of(no, work))
    async with asyncio.timeout(20):
        await all_ended.wait()
    executor.stop()


async def test_a_body_that_no_thread_can_be_made_for_is_put_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where the number of processes is limited."""
    told: asyncio.Queue[Outcome] = asyncio.Queue()
    executor = ThreadExecutor(
        lambda _, outcome: told.put_nowait(outcome), asyncio.get_running_loop()
    )

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as during:
        during.setattr(threading.Thread, "start", refused)
        executor.start(job_of(1, lambda n: None))
        assert await told.get() == Snoozed(PUT_OFF)
    executor.start(job_of(2, lambda n: None))
    assert await told.get() == Succeeded()
    executor.stop()
