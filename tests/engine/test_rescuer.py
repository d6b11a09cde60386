"""The rescuer asks its store seldom, and is prompt all the same."""

from __future__ import annotations

import asyncio
import sys

import msgspec
import pytest

from taskyard import Yard
from taskyard.domain.node import Lease, NewNode, Node, ProcessIdentity
from taskyard.engine.identity import _start_of, provably_dead, this_process
from taskyard.engine.maintenance.rescue import Rescuer


class Steward:
    lease = 1
    lease_seconds = 30.0
    steady_for = 60.0


async def registered(yard: Yard, lease_seconds: float, process: ProcessIdentity) -> Lease:
    return await yard.store.register(
        NewNode(id="n", kinds=("k",), slots=1, lease_seconds=lease_seconds, process=process)
    )


def counting(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> list[list[Node]]:
    """What each look at the nodes found."""
    look, looks = yard.store.nodes, list[list[Node]]()

    async def counted() -> list[Node]:
        looks.append(await look())
        return looks[-1]

    monkeypatch.setattr(yard.store, "nodes", counted)
    return looks


@pytest.mark.spec("engine-26")
async def test_while_all_are_well_the_store_is_not_asked_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await registered(yard, 30, this_process())
    looks = counting(yard, monkeypatch)
    rescuer = Rescuer(yard.store, yard._notifier, Steward())
    for _ in range(3):
        await rescuer.perform()
    assert len(looks) == 1


@pytest.mark.spec("engine-20")
async def test_a_process_that_dies_here_is_rescued_without_another_look_before(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    started = _start_of(child.pid)
    assert started is not None
    process = msgspec.structs.replace(this_process(), pid=child.pid, started=started)
    await registered(yard, 30, process)
    looks = counting(yard, monkeypatch)
    rescuer = Rescuer(yard.store, yard._notifier, Steward())
    await rescuer.perform()
    assert [node.process for node in looks[-1]] == [process]
    child.kill()
    await child.wait()
    assert provably_dead(process)
    await rescuer.perform()
    assert await yard.store.nodes() == []


@pytest.mark.spec("engine-20")
async def test_the_next_look_comes_when_a_lease_can_have_ended(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await registered(yard, 0.2, this_process())
    looks = counting(yard, monkeypatch)
    rescuer = Rescuer(yard.store, yard._notifier, Steward())
    while await yard.store.nodes():
        await rescuer.perform()
        await asyncio.sleep(0.01)
    assert len(looks) > 1
