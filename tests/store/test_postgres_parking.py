"""Who waits for a key, and what it takes to find them."""

from __future__ import annotations

import asyncio

import pytest

from taskyard.domain.task import Clash, Dedup, Duplicate
from taskyard.store.postgres.turn import TURN, turn_args
from tests.conformance.verbs import complete, enqueued, new, node, parked, running, seen, succeeded
from tests.store.postgres_place import connected, someone_waits, yard

KEYS = 100
ROWS_READ = "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = $1::text::regclass"
SET_LIMIT = "SELECT taskyard.set_key_rule(0, $1, 9, NULL, NULL, NULL, 'limit 9', 'ann')"
SCANS = "SELECT idx_scan FROM pg_stat_xact_user_tables WHERE relid = $1::text::regclass"

# Whoever would take the room if it is free takes it as soon as it is.
PATIENTLY = """CREATE OR REPLACE FUNCTION taskyard.try_lock_room() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskyard.lock_room();
    RETURN true;
END
$$"""


@pytest.mark.spec("engine-10", "engine-29")
async def test_who_waits_for_a_key_is_found_without_reading_who_waits_for_others() -> None:
    async with yard() as place, connected() as connection:
        worker = await node(place.store, slots=KEYS)
        keys = [f"key-{n}" for n in range(KEYS)]
        holders = [await running(place.store, worker, keys=(key,)) for key in keys]
        await place.store.enqueue([new(keys=(key,)) for key in keys for _ in range(3)])
        assert {key.waiting for key in await place.store.keys(limit=KEYS)} == {3}

        async with connection.transaction():
            ended = turn_args(0, [succeeded(holders[0]), succeeded(holders[1])], None)
            await connection.execute(place.here(TURN), *ended)
            read = await connection.fetchval(ROWS_READ, place.here("taskyard.parked"))

    assert read < KEYS / 2, read


@pytest.mark.spec("engine-10", "engine-29")
async def test_nobody_is_parked_on_a_key_that_has_come_free_meanwhile() -> None:
    async with yard() as place, connected() as finishing:
        worker = await node(place.store)
        holder = await running(place.store, worker, keys=("k",))
        await finishing.execute(place.here(PATIENTLY))
        async with finishing.transaction():
            ended = turn_args(0, [succeeded(holder)], None)
            await finishing.execute(place.here(TURN), *ended)
            saving = asyncio.create_task(enqueued(place.store, keys=("k",)))
            await someone_waits(place)

        task_id = await saving
        assert (await seen(place.store, task_id)).parked_on is None
        assert await worker.claim_ids() == [task_id]


@pytest.mark.spec("engine-10", "engine-15", "engine-29")
async def test_who_is_being_changed_when_its_key_comes_free_gets_its_turn() -> None:
    async with yard() as place, connected() as caller:
        worker = await node(place.store)
        holder = await running(place.store, worker, keys=("k",))
        waiting = await enqueued(place.store, keys=("k",), dedup=Dedup("d"))
        async with caller.transaction():
            newer = new(payload="[1]", dedup=Dedup("d", clash=Clash.REPLACE))
            assert await place.store.enqueue_in(caller, [newer]) == [
                Duplicate(waiting, changed=True)
            ]
            await complete(place.store, holder)
            assert await worker.claim() == []

        await place.store.promote()
        claimed = await worker.claim_one()
        assert (claimed.id, claimed.payload) == (waiting, "[1]")


@pytest.mark.spec("engine-10", "engine-29")
@pytest.mark.parametrize("named", [("key-7",), ("key-7", *(f"key-7{n}" for n in range(10)))])
async def test_a_rule_concerns_those_who_wait_for_the_keys_it_names(named: tuple[str, ...]) -> None:
    pattern = "key-7" if len(named) == 1 else "key-7*"
    async with yard() as place, connected() as connection:
        worker = await node(place.store, slots=KEYS + 1)
        keys = [f"key-{n}" for n in range(KEYS)]
        await place.store.enqueue([new(keys=(key,)) for key in keys for _ in range(2)])
        await worker.claim(KEYS + 1)
        assert set((await parked(place.store)).values()) == set(keys)

        async with connection.transaction():
            await connection.execute(place.here(SET_LIMIT), pattern)
            read = await connection.fetchval(ROWS_READ, place.here("taskyard.parked"))
            counted = await connection.fetchval(SCANS, place.here("taskyard.held"))

        assert set((await parked(place.store)).values()) == set(keys).difference(named)
        assert read < KEYS, read
        assert counted <= 4 * len(named), counted
