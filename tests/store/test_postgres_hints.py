"""Hints of PostgreSQL that belong together are one."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from taskyard.domain.task import Clash, Dedup
from taskyard.engine.notifier import Notifier
from taskyard.store.port import ClaimRequest
from tests.conformance.verbs import enqueued, failed, new, node, succeeded
from tests.store.postgres_place import Yard, connected, yard

PATIENCE = 30.0  # a hint that never comes fails the test instead of hanging it
LAST = "that was all"

pytestmark = pytest.mark.spec("engine-23", "engine-29")


class Heard:
    """What the server sends to a session of its own that listens."""

    def __init__(self, place: Yard, listening: asyncpg.Connection[asyncpg.Record]) -> None:
        self._channel = place.here("taskyard.changed")
        self._listening = listening
        self._payloads: asyncio.Queue[str] = asyncio.Queue()

    async def begin(self) -> None:
        await self._listening.add_listener(
            self._channel, lambda _connection, _pid, _channel, text: self._payloads.put_nowait(text)
        )

    async def count(self) -> int:
        """Of the hints since the last time: the server sends them in the order of commits."""
        await self._listening.execute("SELECT pg_notify($1, $2)", self._channel, LAST)
        found = 0
        async with asyncio.timeout(PATIENCE):
            while await self._payloads.get() != LAST:
                found += 1
        return found


async def test_one_call_is_one_hint_however_much_it_does() -> None:
    async with yard() as place, connected() as listening:
        worker = await node(place.store, slots=20)
        heard = Heard(place, listening)
        await heard.begin()
        once = Dedup("d", clash=Clash.REPLACE)
        await place.store.enqueue([new(lane=f"lane-{at % 3}", keys=("k",)) for at in range(9)])
        assert await heard.count() == 1
        await place.store.enqueue([new(), new(dedup=once), new(dedup=once), new(lane="other")])
        assert await heard.count() == 1

        tasks = await worker.claim(10)
        assert await heard.count() == 0
        assert len(tasks) == 4
        verdicts = [succeeded(tasks[0]), failed(tasks[1]), *map(succeeded, tasks[2:])]
        await place.store.turn(verdicts, ClaimRequest(lease=worker.lease, number=99, room=9))
        assert await heard.count() == 1


async def test_hints_that_came_together_let_a_listener_look_once() -> None:
    async with yard() as place:
        notifier = Notifier(place.store)
        bell = notifier.bell()
        notifier.start()
        hints: asyncio.Queue[object] = asyncio.Queue()
        stop = place.store.listen(hints.put_nowait)
        async with asyncio.timeout(PATIENCE):
            await hints.get()  # it listens now
            for _ in range(5):
                await enqueued(place.store)
            for _ in range(5):
                await hints.get()

        assert await bell.wait(0)
        assert not await bell.wait(0)
        stop()
        notifier.stop()
