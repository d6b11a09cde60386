"""The life of a worker."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from taskyard import Context, State, Task, Yard
from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.node import Hold, NewNode, News, Usage
from taskyard.domain.outcome import Verdict
from taskyard.domain.task import Enqueued
from taskyard.engine.heartbeat import EXIT_LEASE_ENDED, EXIT_LOOP_BLOCKED, Heartbeat, lease_time
from taskyard.store.port import Answered, Claim, ClaimRequest, Turn
from tests.engine.waits import ended, found, running, until, working


@pytest.mark.spec("engine-24")
async def test_drain_lets_bodies_finish(yard: Yard) -> None:
    go, began = asyncio.Event(), asyncio.Event()

    @yard.task()
    async def careful() -> str:
        began.set()
        await go.wait()
        return "finished"

    worker = yard.worker()
    await worker.start()
    handle = await careful.enqueue()
    await began.wait()
    stopping = asyncio.create_task(worker.stop(grace=20))
    late = await careful.enqueue()

    async def draining() -> bool | None:
        return [node.state for node in await yard.nodes()] == ["draining"] or None

    await found(yard, draining)
    go.set()
    await stopping
    assert await handle.result(20) == "finished"
    assert await late.status() is State.QUEUED
    assert await yard.nodes() == []


@pytest.mark.spec("engine-24", "engine-2", "engine-7")
async def test_drain_past_its_grace_releases_uncharged_and_in_place(yard: Yard) -> None:
    @yard.task()
    async def endless() -> None:
        await asyncio.Event().wait()

    async with working(yard):
        handle = await endless.enqueue()
        before = await running(handle)
    task = await handle.task()
    assert (task.state, task.reason, task.charged) == (State.QUEUED, "released", 0)
    assert (task.seq, task.attempt) == (before.seq, 1)


async def test_a_worker_starts_and_stops_twice_without_harm(yard: Yard) -> None:
    @yard.task()
    async def noop() -> None: ...

    worker = yard.worker()
    await worker.start()
    await worker.start()
    assert len(await yard.nodes()) == 1
    await worker.stop()
    await worker.stop()
    assert await yard.nodes() == []


@pytest.mark.spec("engine-24")
async def test_a_drain_goes_on_when_whoever_asked_for_it_loses_patience(yard: Yard) -> None:
    go, began = asyncio.Event(), asyncio.Event()

    @yard.task()
    async def careful() -> str:
        began.set()
        await go.wait()
        return "finished"

    worker = yard.worker()
    await worker.start()
    handle = await careful.enqueue()
    await began.wait()
    impatient = asyncio.create_task(worker.stop(grace=60))

    async def draining() -> bool | None:
        return [node.state for node in await yard.nodes()] == ["draining"] or None

    await found(yard, draining)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    closing = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    assert not closing.done()  # a body still runs
    go.set()
    await closing
    assert (await handle.task()).state is State.COMPLETED
    assert await yard.nodes() == []


@pytest.mark.spec("engine-24")
async def test_a_worker_can_be_stopped_while_it_starts(yard: Yard) -> None:
    asked = asyncio.Event()

    async def hangs() -> None:
        asked.set()
        await asyncio.Event().wait()

    worker = yard.worker()
    worker._prepare = hangs
    starting = asyncio.create_task(worker.start())
    await asked.wait()
    await yard.close()
    await starting
    await worker.start()
    assert worker.lease == 0
    assert not _threads()


@pytest.mark.spec("engine-24")
async def test_whoever_stops_waiting_for_a_start_ends_it(yard: Yard) -> None:
    asked = asyncio.Event()

    async def hangs() -> None:
        asked.set()
        await asyncio.Event().wait()

    worker = yard.worker()
    worker._prepare = hangs
    starting = asyncio.create_task(worker.start())
    await asked.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    worker._prepare = None
    await worker.start()
    assert len(await yard.nodes()) == 1


@pytest.mark.spec("engine-24")
async def test_of_a_start_that_fails_half_way_nothing_is_left(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = yard.worker()
    bells = len(yard._notifier._bells)

    def no_room(*_: object) -> None:
        raise OSError("too many processes")

    with monkeypatch.context() as broken:
        broken.setattr("taskyard.engine.worker.Upkeep", no_room)
        with pytest.raises(OSError, match="too many processes"):
            await worker.start()
    assert not _threads()
    assert await yard.nodes() == []
    assert len(yard._notifier._bells) == bells
    await worker.start()
    assert len(await yard.nodes()) == 1


def _threads() -> list[threading.Thread]:
    """Those that keep a lease and do not end."""
    names = ("taskyard-heartbeat", "taskyard-watch")
    ours = [thread for thread in threading.enumerate() if thread.name in names]
    for thread in ours:
        thread.join(5)
    return [thread for thread in ours if thread.is_alive()]


@pytest.mark.spec("engine-11")
async def test_nothing_is_hoarded_behind_a_long_task(yard: Yard) -> None:
    @yard.task()
    async def endless() -> None:
        await asyncio.Event().wait()

    @yard.task()
    async def quick(n: int) -> int:
        return n

    async with working(yard, slots=2, kinds=["endless"]), working(yard, slots=2, kinds=["quick"]):
        blockers = [await endless.enqueue() for _ in range(4)]
        await running(blockers[0])
        await running(blockers[1])
        handles = [await quick.enqueue(n) for n in range(200)]
        assert [await handle.result(20) for handle in handles] == list(range(200))
        states = [await blocker.status() for blocker in blockers]
        assert states == [State.RUNNING, State.RUNNING, State.QUEUED, State.QUEUED]


@pytest.mark.spec("engine-11")
async def test_what_was_claimed_ahead_and_cannot_start_is_given_back(yard: Yard) -> None:
    go = asyncio.Event()

    @yard.task()
    async def quick() -> None: ...

    @yard.task()
    async def slow(ctx: Context) -> int:
        await go.wait()
        return ctx.attempt

    async with working(yard, slots=1) as worker:
        async with asyncio.timeout(60):
            while not worker.hand.reserve:  # until it knows that its slots turn over quickly
                await (await quick.enqueue()).result(20)
        answers = await yard.enqueue(*(slow.new() for _ in range(3)))
        handles = [yard.handle(answer.id) for answer in answers if hasattr(answer, "id")]
        await running(handles[0])
        for handle in handles[1:]:
            task = await until(handle, State.QUEUED)
            assert task.charged == 0
        go.set()
        for handle in handles:
            await handle.result(20)
        assert [(await handle.task()).charged for handle in handles] == [1, 1, 1]


@pytest.mark.spec("engine-11")
async def test_where_a_claim_brought_none_ahead_no_other_is_made_for_that_alone(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    @yard.task()
    async def quick() -> None: ...

    asked: list[tuple[ClaimRequest, Claim]] = []
    turn = yard.store.turn

    async def recorded(
        verdicts: Sequence[Verdict], request: ClaimRequest, answered: Answered
    ) -> Turn:
        answer = await turn(verdicts, request, answered)
        asked.append((request, answer.claim))
        return answer

    monkeypatch.setattr(yard.store, "turn", recorded)
    async with working(yard, slots=4) as worker:
        async with asyncio.timeout(60):
            while not worker.hand.reserve:  # until it knows that its slots turn over quickly
                await (await quick.enqueue()).result(20)
        asked.clear()
        keyed = (quick.options(key=f"key {n}").new() for n in range(300))
        answers = await yard.enqueue(*keyed)
        for answer in answers:
            assert isinstance(answer, Enqueued)
            await yard.handle(answer.id).result(20)

    assert any(request.ahead for request, _ in asked)
    for (before, claim), (request, _) in pairwise(asked):
        assert request.room or claim.ahead or not before.ahead


@pytest.mark.spec("engine-13")
async def test_a_claim_whose_answer_was_lost_is_asked_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    @yard.task()
    async def work(n: int) -> int:
        return n

    turn = yard.store.turn
    lost: list[Claim] = []

    async def losing(
        verdicts: Sequence[Verdict], request: ClaimRequest, answered: Answered
    ) -> Turn:
        answer = await turn(verdicts, request, answered)
        if answer.claim.tasks and not lost:
            lost.append(answer.claim)
            raise StoreUnavailable("the connection broke after the commit")
        return answer

    monkeypatch.setattr(yard.store, "turn", losing)
    handles = [await work.enqueue(n) for n in range(3)]
    async with working(yard):
        assert [await handle.result(20) for handle in handles] == [0, 1, 2]
    assert lost
    assert [(await handle.task()).attempt for handle in handles] == [1, 1, 1]


@pytest.mark.spec("engine-13")
async def test_the_beat_finds_what_the_store_thinks_the_node_holds(yard: Yard) -> None:
    @yard.task()
    async def work() -> str:
        return "done"

    async with working(yard) as worker:
        request = ClaimRequest(lease=worker.lease, number=10_000, room=1)
        await yard.pause_lane("default")
        handle = await work.enqueue()
        await yard.resume_lane("default")
        task = await until(handle, State.RUNNING, State.COMPLETED)
        if task.state is State.RUNNING:
            await ended(handle)
        worker._pump.stop_claiming()
        lost = await work.enqueue()
        claim = await yard.store.claim(request)  # as if the answer had never arrived
        assert [claimed.id for claimed in claim.tasks] == [lost.id]

        async def given_back() -> Task | None:
            worker._membership.hear_beat(yard.store.beat(worker.lease, timeout=10))
            task = await lost.task()
            return task if task.state is State.QUEUED else None

        task = await found(yard, given_back)
        assert (task.reason, task.charged) == ("released", 0)


@pytest.mark.spec("engine-19", "engine-20")
async def test_a_worker_that_lost_its_lease_stops_its_bodies_and_begins_anew(yard: Yard) -> None:
    attempts: list[int] = []
    began = asyncio.Event()

    @yard.task()
    async def work(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        began.set()
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return ctx.attempt

    async with working(yard) as worker:
        handle = await work.enqueue()
        await began.wait()
        before = worker.lease
        await yard.store.rescue([before])
        yard._notifier.ring()  # it asks for news now, not with its next beat
        assert await handle.result(20) == 2
        assert worker.lease > before
    assert attempts == [1, 2]


class FakeStore:
    """A store whose beat the test decides; nothing else of it is used."""

    def __init__(self, beat: Callable[[], News]) -> None:
        self._beat = beat

    def beat(self, lease: int, *, timeout: float, usage: Usage | None = None) -> News:
        return self._beat()


class FakeBodies:
    def __init__(self, overdue: str | None = None) -> None:
        self._overdue = overdue

    def bodies(self) -> int:
        return 1

    def overdue(self, now: float) -> str | None:
        return self._overdue


def set_once(future: asyncio.Future[int], code: int) -> None:
    if not future.done():
        future.set_result(code)


def heartbeat(
    beat: Callable[[], News],
    bodies: FakeBodies,
    danger: Callable[[], None],
    left: asyncio.Future[int],
    lease_seconds: float = 0.6,
) -> Heartbeat:
    loop = asyncio.get_running_loop()

    def leave(code: int) -> None:
        loop.call_soon_threadsafe(set_once, left, code)

    return Heartbeat(
        FakeStore(beat),  # type: ignore[arg-type]
        1,
        lease_seconds,
        bodies,
        on_news=lambda news: None,
        on_danger=danger,
        leave=leave,
    )


def unreachable() -> News:
    raise StoreUnavailable("gone")


@pytest.mark.spec("engine-20")
async def test_a_worker_that_cannot_renew_stops_its_bodies_then_leaves() -> None:
    left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    warned: list[bool] = []
    beating = heartbeat(unreachable, FakeBodies(), lambda: warned.append(left.done()), left)
    beating.start()
    assert await asyncio.wait_for(left, 20) == EXIT_LEASE_ENDED
    await beating.stop()
    assert warned == [False]  # asked to stop before the process was to leave


@pytest.mark.spec("engine-20")
async def test_a_beat_that_hangs_keeps_nobody_from_stopping_bodies_in_time() -> None:
    left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    warned: list[bool] = []
    beating_now, go = threading.Event(), threading.Event()

    def hangs() -> News:
        beating_now.set()
        go.wait()
        return News()

    beating = heartbeat(hangs, FakeBodies(), lambda: warned.append(beating_now.wait(20)), left)
    beating.start()
    try:
        assert await asyncio.wait_for(left, 20) == EXIT_LEASE_ENDED
        assert warned == [True]
        await beating.stop()  # nor from ending
    finally:
        go.set()


@pytest.mark.spec("engine-20")
async def test_what_a_beat_that_was_left_behind_brings_is_not_heard() -> None:
    left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    beating = heartbeat(lambda: News(lost=True), FakeBodies(), lambda: None, left)
    heard: list[News] = []
    beating._on_news = heard.append
    beating.start()
    await beating.stop()
    assert beating._beat(lease_time())
    await asyncio.sleep(0)
    assert heard == []


@pytest.mark.spec("engine-20")
async def test_a_lease_in_danger_is_looked_at_when_its_time_has_come() -> None:
    left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    beating = heartbeat(News, FakeBodies(), lambda: None, left)
    beating._beat_due = float("inf")
    for moment in (2 / 3, 9 / 10):  # of the lease: bodies are to stop, the process is to leave
        due = beating.renewed + 0.6 * moment
        looked = beating.renewed
        while looked < due - 1e-6:
            looked += beating._until_next_look(looked)
        assert looked == pytest.approx(due, abs=1e-5)


@pytest.mark.spec("engine-20")
async def test_no_beat_is_waited_for_past_the_end_of_the_lease() -> None:
    left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    beating = heartbeat(News, FakeBodies(), lambda: None, left)
    began, ttl = beating.renewed, 0.6
    for percent in range(100):
        gone = ttl * percent / 100
        patience = beating._patience(began + gone)
        assert 0 < patience <= ttl / 6
        if gone < ttl * 0.9:  # later than that the process has left
            assert gone + patience < ttl


async def test_the_heartbeat_survives_what_it_did_not_expect() -> None:
    left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    thrice = asyncio.Event()
    loop = asyncio.get_running_loop()
    beats: list[float] = []

    def broken(_now: float) -> None:
        raise RuntimeError("dictionary changed size during iteration")

    def beat() -> News:
        beats.append(lease_time())
        if len(beats) == 3:
            loop.call_soon_threadsafe(thrice.set)
        return News()

    beating = heartbeat(beat, FakeBodies(), lambda: None, left)
    beating._watch_lease = broken  # type: ignore[method-assign,assignment]
    beating.start()
    await asyncio.wait_for(thrice.wait(), 20)
    await beating.stop()


@pytest.mark.spec("engine-20")
async def test_a_lease_counts_from_before_it_was_asked_for(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = yard.store.register

    asked: list[float] = []

    async def noted(node: NewNode) -> int:
        asked.append(lease_time())
        return await register(node)

    monkeypatch.setattr(yard.store, "register", noted)
    async with working(yard) as worker:
        assert worker._membership._heartbeat.renewed <= asked[0]


@pytest.mark.spec("engine-20")
async def test_nothing_is_claimed_while_the_lease_is_in_danger(yard: Yard) -> None:
    attempts: list[int] = []
    begun = asyncio.Semaphore(0)

    @yard.task()
    async def endless(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        begun.release()
        await asyncio.Event().wait()

    async with working(yard) as worker:
        await worker._membership._heartbeat.stop()  # beats come when this test says so
        handle = await endless.enqueue()
        await begun.acquire()
        worker._membership.endangered()
        task = await until(handle, State.QUEUED)
        assert (task.reason, task.charged) == ("released", 0)
        late = await endless.enqueue()
        worker._membership.hear(await yard.store.news(worker.lease))  # read, not renewed
        assert worker._pump._wants() is None
        assert await late.status() is State.QUEUED
        worker._membership.hear_beat(yard.store.beat(worker.lease, timeout=10))
        await begun.acquire()
        await begun.acquire()
    assert sorted(attempts) == [1, 1, 2]


@pytest.mark.spec("engine-2", "engine-22")
async def test_the_store_is_told_of_a_begun_body_until_it_has_heard(yard: Yard) -> None:
    begun, told, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @yard.task()
    async def work() -> None:
        begun.set()
        await go.wait()

    mark, calls = yard.store.mark_started, 0

    async def at_the_second_time(holds: Sequence[Hold]) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise StoreUnavailable("away")
        await mark(holds)
        told.set()

    yard.store.mark_started = at_the_second_time  # type: ignore[method-assign]
    async with working(yard) as worker, asyncio.timeout(60):
        handle = await work.enqueue()
        await begun.wait()
        no = (await handle.task()).no
        worker.hand.unmarked[no] = worker.hand.running[no]  # as one that was claimed ahead
        worker._pump.hint()
        await told.wait()
        go.set()
        await handle.result()
    assert calls == 2
    assert not worker.hand.unmarked


@pytest.mark.spec("engine-24")
async def test_a_claim_that_is_answered_during_a_drain_is_given_back(yard: Yard) -> None:
    started: list[int] = []

    @yard.task()
    async def work(ctx: Context) -> None:
        started.append(ctx.attempt)

    turn = yard.store.turn
    taken, go = asyncio.Event(), asyncio.Event()

    async def slow(verdicts: Sequence[Verdict], request: ClaimRequest, answered: Answered) -> Turn:
        answer = await turn(verdicts, request, answered)
        if answer.claim.tasks:
            taken.set()
            await go.wait()
        return answer

    yard.store.turn = slow  # type: ignore[assignment,method-assign]
    worker = yard.worker()
    await worker.start()
    stop, stopping_pump = worker._pump.stop, asyncio.Event()

    async def stop_pump() -> None:
        stopping_pump.set()
        await stop()

    worker._pump.stop = stop_pump  # type: ignore[method-assign]
    handle = await work.enqueue()
    await taken.wait()
    stopping = asyncio.create_task(worker.stop())
    again = asyncio.create_task(worker.stop())
    await stopping_pump.wait()
    assert not again.done()  # the second one waits for the first
    go.set()
    await asyncio.gather(stopping, again)
    task = await handle.task()
    assert (task.state, task.reason, task.charged) == (State.QUEUED, "released", 0)
    assert started == []
    assert await yard.nodes() == []


@pytest.mark.spec("engine-24")
async def test_a_drain_does_not_need_the_loops_pool(yard: Yard) -> None:
    full, began = threading.Event(), asyncio.Event()

    @yard.task()
    async def stubborn() -> None:
        began.set()
        await asyncio.to_thread(full.wait)

    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(1)
    loop.set_default_executor(pool)
    try:
        async with working(yard):
            await stubborn.enqueue()
            await began.wait()
        async with asyncio.timeout(20):
            await yard.close()
    finally:
        full.set()


@pytest.mark.spec("engine-20")
@pytest.mark.spec("lifecycle-12", part="checked every 30 s")
@pytest.mark.parametrize("lease_seconds", [0.6, 3600.0])
async def test_a_loop_blocked_beyond_a_timeout_ends_the_process(lease_seconds: float) -> None:
    """Bodies are looked at more often than a long lease is renewed."""
    left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    codes: list[int] = []
    beating = heartbeat(News, FakeBodies("task-1"), lambda: None, left, lease_seconds)
    beating._leave = codes.append
    beating.start()
    deadline = time.monotonic() + 20
    while not codes and time.monotonic() < deadline:
        pass  # the loop is blocked, as by a careless body
    await beating.stop()
    assert codes[0] == EXIT_LOOP_BLOCKED


@pytest.mark.spec("engine-20")
async def test_beats_go_on_while_the_loop_is_blocked() -> None:
    left: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    beats: list[float] = []

    def beat() -> News:
        beats.append(time.monotonic())
        return News()

    beating = heartbeat(beat, FakeBodies(), lambda: None, left, lease_seconds=3.0)
    beating.start()
    deadline = time.monotonic() + 60
    while len(beats) < 3 and time.monotonic() < deadline:
        pass
    await beating.stop()
    assert len(beats) >= 3
    assert not left.done()


@pytest.mark.spec("engine-28", "engine-23")
async def test_two_yards_on_one_file_wake_each_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    async with Yard(url) as here, Yard(url) as there:

        async def echo(word: str) -> str:
            return word

        @there.task()
        async def asked(word: str) -> str:
            return await echo(word)

        @here.task(name="asked")
        async def asked_here(word: str) -> str:
            raise AssertionError("runs over there")

        async with working(there):
            assert await (await asked_here.enqueue("hello")).result(20) == "hello"


@pytest.mark.spec("engine-19")
async def test_an_answer_that_comes_after_the_lease_has_ended_starts_no_body(yard: Yard) -> None:
    attempts: list[int] = []

    @yard.task()
    async def work(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        return ctx.attempt

    handle = await work.enqueue()
    turn = yard.store.turn
    late: list[Turn] = []

    async def frozen(
        verdicts: Sequence[Verdict], request: ClaimRequest, answered: Answered
    ) -> Turn:
        answer = await turn(verdicts, request, answered)
        if answer.claim.tasks and not late:
            late.append(answer)
            worker._membership._heartbeat.renewed -= (
                1000  # as if the process had been frozen just here
            )
        return answer

    yard.store.turn = frozen  # type: ignore[assignment,method-assign]
    async with working(yard, lease_seconds=5.0) as worker:
        assert await handle.result(20) == 2
    assert late
    assert attempts == [2]
    assert (await handle.task()).charged == 1
