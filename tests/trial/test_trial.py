"""`yard.testing()`: a yard in memory that does nothing by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from taskyard import Context, Fatal, Retry, Snooze, State, TaskFailed, Yard, chain

pytestmark = pytest.mark.spec("engine-36")

yard = Yard("sqlite:////nowhere/at/all.db")  # a trial must not come near it
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@yard.resource
async def book() -> AsyncIterator[list[str]]:
    yield []


@yard.task()
async def greet(name: str, times: int = 1) -> str:
    return " ".join([f"hello {name}"] * times)


@yard.task()
def on_thread(ctx: Context) -> str:
    ctx.report(1, 2)
    return threading.current_thread().name


@yard.task()
def talks(ctx: Context) -> None:
    ctx.log.info("said", page=2)


@yard.task()
async def fan_out(ctx: Context, names: list[str]) -> None:
    await ctx.enqueue(*(greet.new(name) for name in names))


@yard.task(retry=Retry.fixed(2, delay=60))
async def flaky(ctx: Context) -> str:
    if ctx.attempt < 3:
        raise ConnectionError("not yet")
    return f"attempt {ctx.attempt}"


@yard.task()
async def broken() -> None:
    raise Fatal("never")


@yard.task()
async def later(ctx: Context) -> Snooze | str:
    return Snooze(3600) if ctx.attempt == 1 else "now"


@yard.task()
async def note(ctx: Context, word: str) -> int:
    pages = await ctx.resource(book)
    pages.append(word)
    return len(pages)


@yard.task(timeout=0.05, retry=Retry.never())
async def endless() -> None:
    await asyncio.Event().wait()


@yard.task(isolate=True)
def elsewhere() -> int:
    return threading.get_native_id()


@yard.cron("0 * * * *")
@yard.task()
async def hourly() -> None: ...


@yard.task()
async def again(ctx: Context) -> None:
    await ctx.enqueue(again.new())


async def test_nothing_runs_before_it_is_told_to() -> None:
    async with yard.testing() as trial:
        handle = await greet.enqueue("ann")
        assert (await handle.task()).state is State.QUEUED
        [ran] = await trial.drain()
        assert (ran.kind, ran.arguments, ran.result) == ("greet", {"name": "ann"}, "hello ann")
        assert await handle.result(1) == "hello ann"
        assert await trial.drain() == []


async def test_what_bodies_say_is_kept() -> None:
    async with yard.testing() as trial:
        handle = await talks.enqueue()
        await trial.drain()
        [line] = await handle.logs()
        assert (line.attempt, line.level, line.text) == (1, "info", "said page=2")
        assert line.at == (await handle.task()).ended_at


async def test_what_was_enqueued_is_found_by_kind_and_arguments() -> None:
    async with yard.testing() as trial:
        await greet.options(lane="mail", priority=2).enqueue("ann", times=2)
        await greet.options(delay=60).enqueue("bob")
        found = await trial.assert_enqueued(greet, name="ann")
        assert (found.lane, found.priority) == ("mail", 2)
        await trial.assert_enqueued(greet, count=2)
        await trial.assert_not_enqueued(flaky)
        await trial.assert_not_enqueued(greet, name="ann", times=1)
        await trial.assert_enqueued(greet, name="bob", times=1)  # as it is when nobody says
        assert [task.payload for task in await trial.waiting()] == [
            '{"name":"ann","times":2}',
            '{"name":"bob"}',
        ]


async def test_what_is_missing_is_told_with_what_is_there() -> None:
    async with yard.testing() as trial:
        await greet.enqueue("ann")
        with pytest.raises(AssertionError, match=r"one of greet\(name='bob'\) should wait") as told:
            await trial.assert_enqueued(greet, name="bob")
        assert 'greet {"name":"ann"} (queued, lane default)' in str(told.value)
        with pytest.raises(AssertionError, match="nothing like that should wait"):
            await trial.assert_not_enqueued()


async def test_children_run_in_the_same_drain_and_in_order() -> None:
    async with yard.testing() as trial:
        await fan_out.enqueue(["a", "b", "c"])
        ran = await trial.drain()
        assert [one.kind for one in ran] == ["fan_out", "greet", "greet", "greet"]
        assert [one.result for one in ran[1:]] == ["hello a", "hello b", "hello c"]


async def test_time_moves_only_when_it_is_moved() -> None:
    async with yard.testing(start=NOON) as trial:
        assert trial.now == NOON
        handle = await flaky.enqueue()
        [first] = await trial.drain()
        assert first.state is State.PENDING
        assert await trial.drain() == []
        assert trial.advance(minutes=1) == NOON + timedelta(minutes=1)
        [second] = await trial.drain()
        trial.advance(timedelta(seconds=60))
        [third] = await trial.drain()
        assert (second.attempt, third.attempt, third.result) == (2, 3, "attempt 3")
        assert await handle.status() is State.COMPLETED
        with pytest.raises(ValueError, match="time goes forward only"):
            trial.advance(seconds=-1)


async def test_a_snooze_waits_for_its_time() -> None:
    async with yard.testing() as trial:
        await later.enqueue()
        assert [one.state for one in await trial.drain()] == [State.PENDING]
        trial.advance(hours=1)
        assert [one.result for one in await trial.drain() if one.kind == "later"] == ["now"]


async def test_a_failure_is_kept_or_raised() -> None:
    async with yard.testing() as trial:
        await broken.enqueue()
        [ran] = await trial.drain()
        assert ran.state is State.FAILED
        await broken.enqueue()
        with pytest.raises(TaskFailed, match="never") as told:
            await trial.drain(raising=True)
        assert "in broken" in told.value.stack


async def test_plain_functions_run_in_threads_and_isolated_ones_in_place() -> None:
    async with yard.testing() as trial:
        await on_thread.enqueue()
        await elsewhere.enqueue()
        [threaded, isolated] = await trial.drain()
        assert isinstance(threaded.result, str)
        assert threaded.result.startswith("taskyard-body")
        assert threaded.task.progress is not None
        assert isinstance(isolated.result, int)


async def test_resources_are_shared_and_begin_anew_with_the_next_trial() -> None:
    for _ in range(2):
        async with yard.testing() as trial:
            await note.enqueue("a")
            await note.enqueue("b")
            assert [one.result for one in await trial.drain()] == [1, 2]


async def test_workflows_run_through() -> None:
    async with yard.testing() as trial:
        await yard.enqueue(*chain(greet.new("a"), greet.new("b"), greet.new("c")))
        assert [one.result for one in await trial.drain()] == ["hello a", "hello b", "hello c"]


async def test_periodic_tasks_come_with_their_time() -> None:
    async with yard.testing(start=NOON + timedelta(minutes=30)) as trial:
        assert await trial.drain() == []
        trial.advance(minutes=30)
        assert [one.kind for one in await trial.drain()] == ["hourly"]
        assert await trial.drain() == []


async def test_a_timeout_ends_a_body() -> None:
    async with yard.testing() as trial:
        await endless.enqueue()
        [ran] = await trial.drain()
        assert (ran.state, ran.task.reason) == (State.FAILED, "timeout")


async def test_a_loop_of_tasks_does_not_hang_the_test() -> None:
    async with yard.testing() as trial:
        await again.enqueue()
        with pytest.raises(AssertionError, match="is it a loop"):
            await trial.drain(limit=20)


async def test_what_nobody_can_run_here_stays() -> None:
    async with yard.testing() as trial:
        await greet.options(requires=["gpu"]).enqueue("ann")
        assert await trial.drain() == []
    async with yard.testing(capabilities=["gpu"]) as trial:
        await greet.options(requires=["gpu"]).enqueue("ann")
        assert len(await trial.drain()) == 1


async def test_the_yard_is_itself_again_afterwards() -> None:
    url = yard.url

    async def fail() -> None:
        async with yard.testing():
            assert yard.url != url
            raise RuntimeError("from the test")

    with pytest.raises(RuntimeError, match="from the test"):
        await fail()
    assert yard.url == url


def test_the_same_for_code_that_blocks() -> None:
    with yard.testing(start=NOON) as trial:
        handle = greet.sync.enqueue("ann")
        greet.options(delay=60).sync.enqueue("bob")
        trial.assert_enqueued(greet, name="ann")
        [ran] = trial.drain()
        assert ran.result == handle.result(1) == "hello ann"
        assert trial.step() is None
        trial.advance(seconds=60)
        assert trial.now == NOON + timedelta(seconds=60)
        assert len(trial.waiting()) == 1
        one = trial.step()
        assert one is not None
        assert one.result == "hello bob"
        trial.assert_not_enqueued()
