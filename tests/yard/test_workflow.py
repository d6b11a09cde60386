"""Chains, fan-out, fan-in and callbacks, all made of depends_on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from taskyard import (
    Context,
    Duplicate,
    Enqueued,
    Fatal,
    NewTask,
    State,
    TaskCancelled,
    TaskFailed,
    Yard,
    chain,
    gather,
)
from taskyard.domain.errors import InvalidOption
from tests.engine.waits import ended, working
from tests.servers.urls import STORES, lent_url
from tests.yard import kinds

pytestmark = pytest.mark.spec("engine-17")


@pytest.fixture(params=STORES)
async def yard(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Yard]:
    with lent_url(request.param, tmp_path) as url:
        async with Yard(url) as yard:
            yield yard


def new(name: str, *depends_on: str) -> NewTask:
    return NewTask(kind=name, payload="{}", id=name, depends_on=depends_on)


def edges(flow: Any) -> dict[str, tuple[str, ...]]:
    return {task.id: task.depends_on for task in flow}


def test_a_chain_waits_step_by_step() -> None:
    flow = chain(new("a"), new("b"), new("c"))
    assert edges(flow) == {"a": (), "b": ("a",), "c": ("b",)}
    assert (flow.first, flow.last) == (("a",), ("c",))


def test_fan_out_and_fan_in() -> None:
    flow = chain(new("a"), gather(new("b"), chain(new("c"), new("d"))), new("e"))
    assert edges(flow) == {"a": (), "b": ("a",), "c": ("a",), "d": ("c",), "e": ("b", "d")}


def test_several_behind_several() -> None:
    flow = chain(gather(new("a"), new("b")), gather(new("c"), new("d")))
    assert edges(flow) == {"a": (), "b": (), "c": ("a", "b"), "d": ("a", "b")}


def test_what_a_task_waited_for_before_stays() -> None:
    flow = chain(new("a"), new("b", "elsewhere"))
    assert edges(flow)["b"] == ("elsewhere", "a")


def test_named_flows_have_ids_of_that_name() -> None:
    flow = chain(new("a", "elsewhere"), gather(new("b"), new("c")), new("d")).named("import:7")
    assert edges(flow) == {
        "import:7/1": ("elsewhere",),
        "import:7/2": ("import:7/1",),
        "import:7/3": ("import:7/1",),
        "import:7/4": ("import:7/2", "import:7/3"),
    }
    assert flow.last == ("import:7/4",)
    assert flow[-1].kind == "d"
    assert [task.kind for task in flow[1:3]] == ["b", "c"]


def test_what_cannot_be_a_flow() -> None:
    with pytest.raises(InvalidOption, match="at least one"):
        gather()
    again = new("a")
    with pytest.raises(InvalidOption, match="twice"):
        chain(again, gather(new("b"), again))


async def test_results_go_from_task_to_task(yard: Yard) -> None:
    @yard.task()
    async def fetch(url: str) -> str:
        return f"page of {url}"

    @yard.task()
    def count(ctx: Context, letter: str) -> int:
        [page] = ctx.results_blocking(fetch)
        return page.count(letter)

    @yard.task()
    async def add(ctx: Context) -> dict[str, int]:
        return {"sum": sum(await ctx.results(count)), "tasks": len(await ctx.results())}

    flow = chain(fetch.new("a.example"), gather(count.new("a"), count.new("e")), add.new())
    answers = await yard.enqueue(*flow)
    async with working(yard):
        assert await add.handle(answers[-1]).result(20) == {"sum": 6, "tasks": 2}


async def test_a_flow_may_be_enqueued_again(yard: Yard) -> None:
    @yard.task()
    async def step(number: int) -> None: ...

    def built() -> Any:
        return chain(step.new(1), gather(step.new(2), step.new(3)), step.new(4)).named("order:9")

    first, again = await yard.enqueue(*built()), await yard.enqueue(*built())

    assert first == [Enqueued(f"order:9/{n}") for n in (1, 2, 3, 4)]
    assert again == [Duplicate(f"order:9/{n}") for n in (1, 2, 3, 4)]
    assert sum((await yard.counts()).values()) == 4


async def test_a_failure_cancels_what_comes_behind_it(yard: Yard) -> None:
    @yard.task()
    async def step(fail: bool = False) -> int:
        if fail:
            raise Fatal("no")
        return 1

    @yard.task()
    async def report(ctx: Context) -> list[str]:
        return [ending.state.value for ending in await ctx.dependencies()]

    flow = chain(gather(step.new(), step.new(fail=True)), gather(step.new(), step.new()))
    callback = report.options(depends_on=[flow[1], flow[2]], on_failure="run").new()
    answers = await yard.enqueue(*flow, callback)
    async with working(yard):
        handle = report.handle(answers[-1])
        assert await handle.result(20) == ["failed", "cancelled"]
    states = [(await yard.get(task.id)).state for task in flow]
    assert states == [State.COMPLETED, State.FAILED, State.CANCELLED, State.CANCELLED]


async def test_a_callback_that_wants_results_is_told_why_there_are_none(yard: Yard) -> None:
    @yard.task()
    async def step(fail: bool) -> int:
        if fail:
            raise Fatal("no luck")
        return 1

    @yard.task()
    async def callback(ctx: Context, cancelled: bool) -> str:
        with pytest.raises(TaskCancelled if cancelled else TaskFailed) as raised:
            await ctx.results(step)
        return str(raised.value)

    failing, never = step.new(True), step.options(delay=1000).new(False)
    first = callback.options(depends_on=[failing], on_failure="run").new(False)
    second = callback.options(depends_on=[never], on_failure="run").new(True)
    answers = await yard.enqueue(failing, never, first, second)
    await yard.cancel(never.id)
    async with working(yard):
        assert "no luck" in await callback.handle(answers[2]).result(20)
        assert "was cancelled" in await callback.handle(answers[3]).result(20)


async def test_a_task_that_was_tried_again_waits_for_nothing(yard: Yard) -> None:
    @yard.task()
    async def never() -> int:
        return 1

    @yard.task()
    async def look(ctx: Context) -> list[str]:
        return [ending.state.value for ending in await ctx.dependencies()]

    waiting = never.options(delay=1000).new()
    looking = look.options(depends_on=[waiting]).new()
    await yard.enqueue(waiting, looking)
    await yard.cancel(looking.id)
    await yard.retry(looking.id)
    async with working(yard):
        assert await yard.handle(looking.id).result(20) == ["pending"]


@pytest.mark.parametrize("fan_in", [kinds.total, kinds.total_blocking])
async def test_results_in_a_process_of_its_own(tmp_path: Path, fan_in: Any) -> None:
    async with kinds.added_to(Yard(f"sqlite:///{tmp_path / 'yard.db'}")) as yard:
        flow = chain(gather(kinds.double.new(1), kinds.double.new(20)), fan_in.new())
        await yard.enqueue(*flow)
        async with working(yard):
            task = await ended(yard.handle(flow[-1].id))
            assert (task.state, task.result) == (State.COMPLETED, "42"), task.error
