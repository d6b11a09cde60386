"""Whatever happens in or around a body, its task ends and its slot comes free."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskyard import Context, Reason, Retry, Snooze, State, Yard
from taskyard.domain.errors import InvalidOption
from tests.engine.isolated import isolated_yard
from tests.engine.waits import ended, working

NEVER = Retry.never()


class Unreadable(Exception):
    """Some clients' errors raise when an attribute is asked for too early."""

    @property
    def response(self) -> Any:
        raise RuntimeError("there is no response yet")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@dataclass
class Picky:
    x: int
    willing = True

    def __post_init__(self) -> None:
        if not Picky.willing:
            raise LookupError("not on this machine")


@pytest.mark.parametrize("error", [Unreadable("busy"), Unspeakable()], ids=["unreadable", "mute"])
async def test_an_error_that_cannot_be_looked_at_is_an_error_all_the_same(
    yard: Yard, error: Exception
) -> None:
    @yard.task(retry=NEVER)
    async def on_the_loop() -> None:
        raise error

    @yard.task(retry=NEVER)
    def in_a_thread() -> None:
        raise error

    async with working(yard) as worker:
        for kind in (on_the_loop, in_a_thread):
            task = await ended(await kind.enqueue())
            assert (task.state, task.reason) == (State.FAILED, Reason.ERROR)
            assert task.error is not None
            assert task.error.type == type(error).__name__
        assert not worker.hand.running


async def test_a_payload_no_argument_can_be_made_of_fails_its_task(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    @yard.task()
    async def on_the_loop(picky: Picky) -> None: ...

    @yard.task()
    def in_a_thread(picky: Picky) -> None: ...

    handles = [await on_the_loop.enqueue(Picky(1)), await in_a_thread.enqueue(Picky(1))]
    monkeypatch.setattr(Picky, "willing", False)
    async with working(yard) as worker:
        for handle in handles:
            task = await ended(handle)
            assert (task.state, task.reason) == (State.FAILED, Reason.UNDECODABLE)
        assert not worker.hand.running


async def test_retry_after_what_is_no_number_is_the_handlers_error(yard: Yard) -> None:
    @yard.task(retry=NEVER)
    async def hasty() -> None:
        raise Retry(after=timedelta(seconds=5))  # type: ignore[arg-type]

    async with working(yard):
        task = await ended(await hasty.enqueue())
    assert task.error is not None
    assert task.error.type == "InvalidOption"
    assert "in seconds" in task.error.message


async def test_a_coroutine_that_would_block_its_own_loop_is_told_so(yard: Yard) -> None:
    @yard.task(retry=NEVER)
    async def confused(ctx: Context) -> None:
        ctx.report(1, 2)

    async with working(yard):
        task = await ended(await confused.enqueue())
    assert task.error is not None
    assert "await ctx.progress" in task.error.message


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda ctx: ctx.progress(1, 2), "ctx.report"),
        (lambda ctx: ctx.checkpoint({}), "ctx.checkpoint_blocking"),
        (lambda ctx: ctx.enqueue(), "ctx.enqueue_blocking"),
        (lambda ctx: ctx.dependencies(), "ctx.dependencies_blocking"),
        (lambda ctx: ctx.results(), "ctx.results_blocking"),
    ],
)
async def test_a_plain_function_that_cannot_await_is_told_what_to_use(
    yard: Yard, call: Callable[[Context], object], instead: str
) -> None:
    @yard.task(retry=NEVER)
    def confused(ctx: Context) -> None:
        call(ctx)

    async with working(yard):
        task = await ended(await confused.enqueue())
    assert task.error is not None
    assert f"in a plain function use {instead}(…)" in task.error.message


async def test_a_plain_function_in_a_process_is_told_so_too(tmp_path: Path) -> None:
    async with isolated_yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard, working(yard):
        task = await ended(await yard.kind("forgets_to_await").enqueue())
    assert task.error is not None
    assert "in a plain function use ctx.report(…)" in task.error.message


@pytest.mark.parametrize("seconds", [math.inf, 1e13, -1.0, math.nan])
def test_a_wait_that_no_store_could_keep_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidOption, match="0 seconds or more and at most 100 years"):
        Snooze(seconds)
    with pytest.raises(InvalidOption, match="0 seconds or more and at most 100 years"):
        Retry(after=seconds)
