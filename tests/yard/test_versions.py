"""Old and new workers on one store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskyard import Keep, NewTask, Retention, State, TaskFailed, TaskKind, Yard
from taskyard.domain.errors import InvalidHandler, UnknownKind
from taskyard.domain.retention import FOREVER
from tests.engine.waits import ended, working
from tests.yard import kinds

pytestmark = pytest.mark.spec("engine-38")


def old_program(url: str) -> tuple[Yard, TaskKind[[str, str], str]]:
    yard = Yard(url)

    @yard.task()
    async def greet(first: str, last: str) -> str:
        return f"Hello {first} {last}"

    return yard, greet


def new_program(url: str) -> tuple[Yard, TaskKind[[str], str]]:
    yard = Yard(url)

    @yard.task(name="welcome", version=3, aliases=["greet"])
    async def welcome(name: str) -> str:
        return f"Welcome {name}"

    @welcome.migrate(from_version=1)
    def to_whole(old: dict[str, Any]) -> dict[str, Any]:
        return {"whole": f"{old['first']} {old['last']}"}

    @welcome.migrate(from_version=2)
    def to_name(old: dict[str, Any]) -> dict[str, Any]:
        return {"name": old["whole"]}

    return yard, welcome


async def test_an_old_worker_leaves_what_only_a_new_one_understands(yard: Yard) -> None:
    old, greet = old_program(yard.url)
    new, welcome = new_program(yard.url)
    async with old, new:
        newer = await welcome.enqueue("Ann")
        older = await greet.enqueue("Bo", "Ek")
        async with working(old):
            assert await older.result(20) == "Hello Bo Ek"
            task = await newer.task()
            assert (task.state, task.attempt, task.kind) == (State.QUEUED, 0, "welcome@3")
            assert "no live worker serves kind welcome@3" in (await newer.explain()).text
            async with working(new):
                assert await newer.result(20) == "Welcome Ann"


async def test_a_new_worker_brings_old_payloads_up(yard: Yard) -> None:
    old, greet = old_program(yard.url)
    new, _ = new_program(yard.url)
    async with old, new:
        older = await greet.enqueue("Bo", "Ek")
        between = NewTask(kind="welcome@2", payload='{"whole":"Cy"}')
        await new.enqueue(between)
        async with working(new):
            assert await older.result(20) == "Welcome Bo Ek"
            assert await new.handle(between.id).result(20) == "Welcome Cy"


async def test_what_cannot_be_brought_up_is_refused_by_name(yard: Yard) -> None:
    new, _ = new_program(yard.url)
    async with new:
        odd = NewTask(kind="greet", payload='{"first":"Bo"}')
        await new.enqueue(odd)
        async with working(new):
            handle = new.handle(odd.id)
            with pytest.raises(TaskFailed, match="greet, from version 1 to 2: KeyError: 'last'"):
                await handle.result(20)
            assert (await handle.task()).reason == "undecodable"
            assert (await handle.task()).payload == odd.payload


async def test_a_version_without_a_way_up_is_left_to_those_who_know_it(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    @yard.task(version=2)
    async def greet(name: str) -> str:
        return name

    older = NewTask(kind="greet", payload='{"first":"Bo"}')
    await yard.enqueue(older)
    async with working(yard):
        assert "left to older workers: no migration' kinds=('greet',)" in caplog.text
        assert await (await greet.enqueue("Ann")).result(20) == "Ann"
        assert (await yard.get(older.id)).state is State.QUEUED
    old, _ = old_program(yard.url)
    async with old, working(old):
        assert (await ended(old.handle(older.id))).reason == "undecodable", "it is theirs to judge"


async def test_which_routes_a_worker_serves(yard: Yard) -> None:
    new, _ = new_program(yard.url)
    async with new:
        async with working(new, kinds=["welcome"]):
            [node] = await new.nodes()
        assert set(node.kinds) == {
            "welcome", "welcome@2", "welcome@3", "greet", "greet@2", "greet@3",
        }  # fmt: skip
        assert new.kind("greet").name == "welcome"
        with pytest.raises(UnknownKind, match="no task called other@2"):
            new.kind("other@2")


async def test_version_one_is_the_plain_name(yard: Yard) -> None:
    @yard.task()
    async def plain() -> None: ...

    assert plain.new().kind == "plain"


async def test_retention_of_a_kind_is_that_of_all_its_versions() -> None:
    kept = Keep(completed=FOREVER)
    yard = Yard("sqlite://:memory:", retention=Retention(kinds={"bill": kept}))

    @yard.task(version=2, aliases=["invoice"])
    async def bill() -> None: ...

    @bill.migrate(from_version=1)
    def up(old: dict[str, Any]) -> dict[str, Any]:
        return old

    assert yard._retention_of_routes().kinds == dict.fromkeys(
        ["bill", "bill@2", "invoice", "invoice@2"], kept
    )


async def test_in_a_process_of_its_own(tmp_path: Path) -> None:
    async with kinds.added_to(Yard(f"sqlite:///{tmp_path / 'yard.db'}")) as yard:
        older = NewTask(kind="greet", payload='{"first":"Bo","last":"Ek"}')
        await yard.enqueue(older)
        async with working(yard):
            assert await yard.handle(older.id).result(20) == "Hello Bo Ek"


async def test_what_is_wrong_is_said_where_it_is_declared(yard: Yard) -> None:
    with pytest.raises(InvalidHandler, match="versions begin with 1"):

        @yard.task(version=0)
        async def zero() -> None: ...

    with pytest.raises(InvalidHandler, match="cannot end like a version"):

        @yard.task(name="work@2")
        async def work() -> None: ...

    @yard.task(version=2)
    async def fine() -> None: ...

    with pytest.raises(InvalidHandler, match="a migration starts from 1 to 1, not 2"):
        fine.migrate(from_version=2)(lambda old: old)
    fine.migrate(from_version=1)(lambda old: old)
    with pytest.raises(InvalidHandler, match="two migrations from 1"):
        fine.migrate(from_version=1)(lambda old: old)
    with pytest.raises(InvalidHandler, match="two tasks called fine"):

        @yard.task(aliases=["fine"])
        async def other() -> None: ...
