"""What handlers may be and do."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import wraps

import msgspec
import pytest

from taskyard import (
    Cancelled,
    Context,
    Fatal,
    NewTask,
    Reason,
    Retry,
    Snooze,
    State,
    TaskCancelled,
    TaskFailed,
    Yard,
)
from taskyard.domain.errors import ResultMismatch
from tests.engine.waits import ended, running, until, working


class Colour(Enum):
    RED = "red"


@dataclass
class Size:
    width: int
    height: int


class Point(msgspec.Struct):
    x: float


@pytest.mark.spec("engine-32", "engine-33")
async def test_a_coroutine_and_a_thread_return_their_results(yard: Yard) -> None:
    @yard.task()
    async def on_the_loop(a: int, b: int = 2) -> int:
        assert threading.current_thread() is threading.main_thread()
        return a + b

    @yard.task()
    def in_a_thread(ctx: Context, name: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return f"{name} {ctx.attempt}"

    async with working(yard):
        assert await (await on_the_loop.enqueue(1)).result(20) == 3
        assert await (await in_a_thread.enqueue(name="n")).result(20) == "n 1"


@pytest.mark.spec("engine-32")
async def test_arguments_travel_by_name(yard: Yard) -> None:
    """Into a decorator, too, that hands on what it is given and takes nothing by place."""

    async def double(a: int, b: int = 2) -> int:
        return 2 * (a + b)

    @wraps(double)
    async def wrapped(**arguments: int) -> int:
        return await double(**arguments)

    task = yard.task(name="double")(wrapped)

    async with working(yard):
        assert await (await task.enqueue(a=1)).result(20) == 6


@pytest.mark.spec("engine-32")
async def test_rich_types_arrive_as_what_they_were(yard: Yard) -> None:
    seen: list[object] = []

    @yard.task()
    async def rich(size: Size, colour: Colour, point: Point, when: datetime) -> Point:
        seen.extend((size, colour, point, when))
        return Point(point.x * 2)

    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    async with working(yard):
        handle = await rich.enqueue(Size(1, 2), Colour.RED, Point(1.5), when)
        assert await handle.result(20) == Point(3.0)
    assert seen == [Size(1, 2), Colour.RED, Point(1.5), when]


@pytest.mark.spec("engine-2", "engine-34")
async def test_three_retries_mean_four_charged_runs(yard: Yard) -> None:
    attempts: list[int] = []

    @yard.task(retry=Retry.fixed(3, delay=0.0))
    async def failing(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        raise ConnectionError("no route")

    async with working(yard):
        handle = await failing.enqueue()
        with pytest.raises(TaskFailed, match="ConnectionError: no route"):
            await handle.result(20)
    task = await handle.task()
    assert attempts == [1, 2, 3, 4]
    assert (task.charged, task.reason) == (4, Reason.ERROR)
    assert [failure.attempt for failure in task.failures] == [1, 2, 3, 4]
    assert task.error is not None
    assert "no route" in task.error.stack


@pytest.mark.spec("engine-34")
async def test_fatal_is_not_tried_again(yard: Yard) -> None:
    @yard.task()
    async def hopeless() -> None:
        raise Fatal("the account is closed")

    async with working(yard):
        task = await ended(await hopeless.enqueue())
    assert (task.state, task.reason, task.attempt) == (State.FAILED, Reason.FATAL, 1)


@pytest.mark.spec("engine-34")
async def test_retry_after_says_when(yard: Yard) -> None:
    @yard.task()
    async def later(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise Retry(after=0.01)
        return "done"

    async with working(yard):
        assert await (await later.enqueue()).result(20) == "done"


@pytest.mark.spec("engine-34", "engine-2")
async def test_a_snooze_is_not_charged(yard: Yard) -> None:
    @yard.task(retry=Retry.never())
    async def sleepy(ctx: Context) -> Snooze | str:
        return Snooze(0.01) if ctx.attempt < 3 else "awake"

    async with working(yard):
        handle = await sleepy.enqueue()
        assert await handle.result(20) == "awake"
    task = await handle.task()
    assert (task.attempt, task.charged) == (3, 1)


@pytest.mark.spec("engine-34")
async def test_a_body_may_cancel_its_own_task(yard: Yard) -> None:
    @yard.task()
    async def unneeded() -> None:
        raise Cancelled("nobody wants it")

    async with working(yard):
        task = await ended(await unneeded.enqueue())
    assert (task.state, task.reason) == (State.CANCELLED, Reason.BODY)


@pytest.mark.spec("engine-23")
async def test_cancel_reaches_a_running_coroutine(yard: Yard) -> None:
    began, cleaned = asyncio.Event(), asyncio.Event()

    @yard.task()
    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    async with working(yard):
        handle = await endless.enqueue()
        await began.wait()
        await handle.cancel()
        with pytest.raises(TaskCancelled):
            await handle.result(20)
    assert cleaned.is_set()
    assert (await handle.task()).charged == 0


@pytest.mark.spec("engine-23", "engine-33")
async def test_cancel_reaches_a_thread_that_looks(yard: Yard) -> None:
    @yard.task()
    def looking(ctx: Context) -> None:
        while True:
            ctx.raise_if_cancelled()

    async with working(yard):
        handle = await looking.enqueue()
        await running(handle)
        await handle.cancel()
        assert (await ended(handle)).state is State.CANCELLED


async def test_a_success_stays_a_success_also_after_a_cancel(yard: Yard) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @yard.task()
    async def stubborn() -> str:
        began.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            return "finished all the same"
        return "not reached"

    async with working(yard):
        handle = await stubborn.enqueue()
        await began.wait()
        await handle.cancel()
        assert await handle.result(20) == "finished all the same"


@pytest.mark.spec("lifecycle-11")
async def test_a_timeout_ends_a_coroutine(yard: Yard) -> None:
    @yard.task(timeout=0.05, retry=Retry.never())
    async def endless() -> None:
        await asyncio.Event().wait()

    async with working(yard):
        task = await ended(await endless.enqueue())
    assert (task.state, task.reason) == (State.FAILED, Reason.TIMEOUT)
    assert [entry.action for entry in await yard.audit() if entry.subject == f"task:{task.id}"] == [
        "timeout"
    ]


@pytest.mark.spec("lifecycle-11")
async def test_a_thread_past_its_timeout_keeps_its_key_until_it_is_gone(yard: Yard) -> None:
    go = threading.Event()

    @yard.task(timeout=0.05, retry=Retry.never())
    def hanging(ctx: Context) -> str:
        while not ctx.cancelled:
            pass
        go.wait(20)
        return "too late"

    @yard.task()
    async def other() -> str:
        return "mine"

    async with working(yard):
        late = await hanging.options(key="k").enqueue()
        await running(late)
        waiting = await other.options(key="k").enqueue()
        explanation = await waiting.explain()
        assert [wait.code for wait in explanation.waits] == ["key_full"]
        assert await late.status() is State.RUNNING
        go.set()
        assert await waiting.result(20) == "mine"
    assert (await late.task()).reason is Reason.TIMEOUT


@pytest.mark.spec("engine-6", "reliability-16")
async def test_a_payload_that_does_not_fit_fails_its_task_only(yard: Yard) -> None:
    @yard.task()
    async def strict(n: int) -> int:
        return n

    await yard.store.enqueue([NewTask(kind="strict", payload='{"n": "x"}', id="bad")])
    await yard.store.enqueue([NewTask(kind="strict", payload="not json", id="worse")])
    async with working(yard):
        assert await (await strict.enqueue(1)).result(20) == 1
        for name in ("bad", "worse"):
            task = await ended(yard.handle(name))
            assert (task.state, task.reason) == (State.FAILED, Reason.UNDECODABLE)
    assert (await yard.get("worse")).payload == "not json"


async def test_a_result_that_cannot_be_kept_fails_without_doing_it_again(yard: Yard) -> None:
    runs: list[int] = []

    @yard.task()
    async def odd(ctx: Context) -> object:
        runs.append(ctx.attempt)
        return object()

    async with working(yard):
        task = await ended(await odd.enqueue())
    assert runs == [1]
    assert task.error is not None
    assert task.error.type == "UnusableResult"


async def test_context_variables_do_not_leak_from_one_task_to_the_next(yard: Yard) -> None:
    marker: contextvars.ContextVar[str] = contextvars.ContextVar("marker", default="clean")

    @yard.task()
    async def careless(name: str) -> str:
        before = marker.get()
        marker.set(name)
        return before

    async with working(yard, slots=1):
        handles = [await careless.enqueue(f"task {n}") for n in range(5)]
        assert [await handle.result(20) for handle in handles] == ["clean"] * 5


@pytest.mark.spec("engine-19")
async def test_children_are_enqueued_by_the_accepted_attempt(yard: Yard) -> None:
    @yard.task()
    async def child(n: int) -> int:
        return n

    @yard.task()
    async def parent(ctx: Context) -> list[str]:
        answers = await ctx.enqueue(child.new(1), child.new(2))
        return [answer.id for answer in answers if hasattr(answer, "id")]

    @yard.task()
    def parent_in_a_thread(ctx: Context) -> int:
        ctx.report(1, 2, "half")
        return len(ctx.enqueue_blocking(child.new(3)))

    async with working(yard):
        children = await (await parent.enqueue()).result(20)
        assert [await yard.handle(child_id).result(20) for child_id in children] == [1, 2]
        threaded = await parent_in_a_thread.enqueue()
        assert await threaded.result(20) == 1
    progress = (await threaded.task()).progress
    assert progress is not None
    assert (progress.done, progress.total, progress.note) == (1, 2, "half")


@pytest.mark.spec("engine-5", "engine-26")
async def test_a_delayed_task_starts_when_its_time_has_come(yard: Yard) -> None:
    @yard.task()
    async def now() -> float:
        return datetime.now(UTC).timestamp()

    async with working(yard):
        due = datetime.now(UTC) + timedelta(seconds=0.3)
        handle = await now.options(run_at=due).enqueue()
        status = await handle.status()
        assert status is State.PENDING or datetime.now(UTC) >= due
        assert await handle.result(20) >= due.timestamp()


async def test_a_task_whose_deadline_passes_fails_as_expired(yard: Yard) -> None:
    @yard.task()
    async def late() -> None: ...

    await yard.pause_lane("default")
    past = datetime.now(UTC) - timedelta(seconds=1)
    handle = await late.options(deadline=past).enqueue()
    async with working(yard):
        task = await until(handle, State.FAILED)
    assert task.reason is Reason.EXPIRED
    with pytest.raises(TaskFailed):
        await handle.result(20)


@pytest.mark.spec("lifecycle-11")
async def test_a_body_that_cleans_up_after_its_timeout_is_not_cancelled_again(yard: Yard) -> None:
    cleaned: list[str] = []

    @yard.task(timeout=0.05, retry=Retry.never())
    async def slow_to_clean() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1.5)  # longer than the timekeeper takes to look again
            cleaned.append("all of it")

    async with working(yard):
        task = await ended(await slow_to_clean.enqueue())
    assert (task.reason, cleaned) == (Reason.TIMEOUT, ["all of it"])


@pytest.mark.spec("engine-4")
async def test_a_task_runs_where_what_it_requires_is(yard: Yard) -> None:
    @yard.task()
    async def train() -> str:
        return "trained"

    async with working(yard):
        handle = await train.options(requires=["gpu"]).enqueue()
        assert (await handle.explain()).text == "no live worker serves kind train with gpu"
        async with working(yard, capabilities=["gpu", "big"]):
            assert await handle.result(20) == "trained"


async def test_a_failure_says_what_failed(yard: Yard) -> None:
    @yard.task(retry=Retry.never())
    async def broken() -> None:
        raise ValueError("no good")

    async with working(yard):
        handle = await broken.enqueue()
        with pytest.raises(TaskFailed) as caught:
            await handle.result(20)
        assert (caught.value.task_id, caught.value.error_type) == (handle.id, "ValueError")
        assert "no good" in caught.value.stack
        await handle.retry()
        with pytest.raises(TaskFailed):
            await handle.result(20)


async def test_a_result_of_another_type_than_promised_is_said(yard: Yard) -> None:
    @yard.task()
    async def promised() -> int:
        return "seven"  # type: ignore[return-value]

    async with working(yard):
        with pytest.raises(ResultMismatch, match="Expected `int`, got `str`"):
            await (await promised.enqueue()).result(20)
