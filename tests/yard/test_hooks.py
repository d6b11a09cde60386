"""Hooks: called around bodies, in order, and without a say in what becomes of the task."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from taskyard import Context, Fatal, NewTask, Snooze, State, TaskFailed, Yard
from taskyard.domain.errors import InvalidHandler
from tests.engine.waits import ended, running, until, working
from tests.yard import kinds


async def test_hooks_of_the_yard_come_before_those_of_the_kind(yard: Yard) -> None:
    lines: list[str] = []

    @yard.task()
    async def fetch(url: str) -> str:
        lines.append("body")
        return url

    @fetch.before
    async def of_the_kind(ctx: Context) -> None:
        lines.append(f"before {ctx.kind} of the kind")

    @yard.before
    def of_the_yard(ctx: Context) -> None:
        lines.append("before, of the yard")

    @yard.before
    async def second(ctx: Context) -> None:
        await asyncio.sleep(0)
        lines.append("before, second")

    @yard.after
    def returned(ctx: Context, result: object) -> None:
        lines.append(f"after: {result}")

    @yard.error
    def failed(ctx: Context, error: BaseException) -> None:
        lines.append("error")

    async with working(yard):
        assert await (await fetch.enqueue("a")).result(20) == "a"
    assert lines == [
        "before, of the yard",
        "before, second",
        "before fetch of the kind",
        "body",
        "after: a",
    ]


@pytest.mark.parametrize("plain", [True, False])
async def test_an_error_reaches_its_hooks_as_it_was_raised(yard: Yard, plain: bool) -> None:
    seen: list[BaseException] = []
    threads: set[int] = set()
    told = asyncio.Event()

    @yard.task(name="work")
    async def on_loop() -> None:
        raise Fatal("not this")

    @yard.task(name="work_plain")
    def in_thread() -> None:
        threads.add(threading.get_ident())
        raise Fatal("not this")

    @yard.error
    def sync_hook(ctx: Context, error: BaseException) -> None:
        threads.add(threading.get_ident())
        seen.append(error)

    @yard.error
    async def async_hook(ctx: Context, error: BaseException) -> None:
        await asyncio.sleep(0)
        seen.append(error)
        told.set()

    @yard.after
    def never(ctx: Context, result: object) -> None:
        raise AssertionError

    async with working(yard):
        with pytest.raises(TaskFailed, match="not this"):
            await (await (in_thread if plain else on_loop).enqueue()).result(20)
    assert told.is_set(), "an async hook has the worker's loop, also for a body in a thread"
    assert seen[0] is seen[1]
    assert isinstance(seen[0], Fatal)
    assert len(threads) == 1, "a plain hook runs where the body runs"


@pytest.mark.parametrize("plain", [True, False])
async def test_a_hook_that_fails_changes_nothing(
    yard: Yard, plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    @yard.task()
    async def on_loop(fail: bool) -> str:
        if fail:
            raise Fatal("its own")
        return "done"

    @yard.task()
    def in_thread(fail: bool) -> str:
        if fail:
            raise Fatal("its own")
        return "done"

    @yard.before
    async def breaks(ctx: Context) -> None:
        raise ValueError("broken before")

    @yard.after
    def breaks_too(ctx: Context, result: object) -> None:
        raise ValueError("broken after")

    @yard.error
    async def and_here(ctx: Context, error: BaseException) -> None:
        raise ValueError("broken error")

    kind = in_thread if plain else on_loop
    with caplog.at_level(logging.ERROR):
        async with working(yard):
            assert await (await kind.enqueue(False)).result(20) == "done"
            with pytest.raises(TaskFailed, match="its own"):
                await (await kind.enqueue(True)).result(20)
    for text in ("broken before", "broken after", "broken error"):
        assert text in caplog.text


async def test_only_what_has_ended_is_told(yard: Yard) -> None:
    lines: list[str] = []

    @yard.task()
    async def nap(ctx: Context) -> Snooze:
        return Snooze(1000)

    @yard.task()
    async def endless() -> None:
        await asyncio.Event().wait()

    @yard.task()
    async def strict(number: int) -> None: ...

    yard.after(lambda ctx, result: lines.append(f"after {ctx.kind}"))
    yard.error(lambda ctx, error: lines.append(f"{type(error).__name__} of {ctx.kind}"))

    async with working(yard):
        snoozed, cancelled = await nap.enqueue(), await endless.enqueue()
        late = await endless.options(timeout=0.05, retries=0).enqueue()
        odd = NewTask(kind="strict", payload='{"number":"x"}')
        await yard.enqueue(odd)
        await until(snoozed, State.PENDING)
        await running(cancelled)
        await cancelled.cancel()
        await ended(cancelled)
        await ended(late)
        await ended(yard.handle(odd.id))
    assert sorted(lines) == ["TimeoutError of endless", "ValidationError of strict"]


async def test_a_cancelled_hook_leaves_the_result(yard: Yard) -> None:
    """What the body did is done, also if the time is up while a hook still runs."""

    @yard.task(timeout=0.2)
    async def quick() -> str:
        return "done"

    @quick.after
    async def endless(ctx: Context, result: str) -> None:
        await asyncio.Event().wait()

    async with working(yard):
        assert await (await quick.options(retries=0).enqueue()).result(20) == "done"


async def test_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKYARD_TEST_NOTES", str(tmp_path))
    async with kinds.added_to(Yard(f"sqlite:///{tmp_path / 'yard.db'}")) as yard:
        task = kinds.hooked.new(str(tmp_path))
        await yard.enqueue(task)
        async with working(yard):
            await yard.handle(task.id).result(20)
    notes = (tmp_path / "notes").read_text().splitlines()
    assert notes == ["before hooked", "body", "after hooked"]


async def test_a_hook_takes_what_it_is_given(yard: Yard) -> None:
    def wrong() -> None: ...

    for declare in (yard.before, yard.after, yard.error):
        with pytest.raises(InvalidHandler, match="hook"):
            declare(wrong)  # type: ignore[type-var]
