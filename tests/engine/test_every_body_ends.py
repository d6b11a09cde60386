"""Whatever happens in or around a body, its task ends and its slot comes free."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from taskyard import Context, Reason, Retry, State, Yard
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
