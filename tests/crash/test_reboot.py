"""Leases and duties belong to the boot of the machine they were taken in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard.domain.state import State
from taskyard.store.sqlite.clock import SqliteClock
from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.verbs import enqueued, node, running, state_of


class Machine(SqliteClock):
    """After a reboot boot time starts anew, and the wall clock goes on."""

    def reboot(self) -> None:
        self.boot_id = f"{self.boot_id} and another"


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
async def store(machine: Machine, tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(str(tmp_path / "yard.db"), clock=machine)
    await made.open()
    yield made
    await made.close()


@pytest.mark.spec("engine-21", "engine-20")
async def test_a_lease_does_not_survive_a_reboot(store: SqliteStore, machine: Machine) -> None:
    worker = await node(store)
    await enqueued(store)

    machine.reboot()

    assert await worker.refusal() == "this lease has run out"
    [listed] = await store.nodes()
    assert listed.lease_left < 0


@pytest.mark.spec("engine-21", "engine-20")
async def test_what_ran_before_a_reboot_is_rescued(store: SqliteStore, machine: Machine) -> None:
    worker = await node(store)
    task = await running(store, worker)
    assert await store.rescue() == []

    machine.reboot()
    [rescued] = await store.rescue(ended=False)  # a reboot is a proof: no lease is waited for

    assert rescued.lease == worker.lease
    assert (await state_of(store, task.id))[0] is State.QUEUED


@pytest.mark.spec("engine-21", "engine-26")
async def test_a_duty_passes_on_at_a_reboot(store: SqliteStore, machine: Machine) -> None:
    before, after = await node(store, "before"), await node(store, "after")
    assert await store.take_duty("rescue", before.lease, 60)
    assert not await store.take_duty("rescue", after.lease, 60)

    machine.reboot()

    assert await store.take_duty("rescue", after.lease, 60)
