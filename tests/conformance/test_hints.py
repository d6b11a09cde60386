from __future__ import annotations

import asyncio

import pytest

from taskyard.store.port import Hint, Store
from tests.conformance.verbs import complete, enqueued, node, running

PATIENCE = 30.0  # a hint that never comes fails the test instead of hanging it


class Listener:
    """Remembers that it was woken."""

    def __init__(self, store: Store) -> None:
        self.hints: list[Hint] = []
        self._woken = asyncio.Event()
        self.stop = store.listen(self._wake)

    def _wake(self, hint: Hint) -> None:
        self.hints.append(hint)
        self._woken.set()

    async def woken(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._woken.wait()
        self._woken.clear()


async def hears_while(listener: Listener, store: Store) -> None:
    """Hints may be lost while a listener is setting up, so the store is changed until one came."""
    async with asyncio.TaskGroup() as group:
        heard = group.create_task(listener.woken())
        while not heard.done():
            await enqueued(store)
            await asyncio.wait([heard], timeout=0.05)


@pytest.mark.spec("engine-23", "engine-28")
async def test_a_change_wakes_a_listener_in_another_process(store: Store, elsewhere: Store) -> None:
    listener = Listener(elsewhere)
    await hears_while(listener, store)

    await enqueued(store)
    await listener.woken()

    assert set(listener.hints) == {Hint.CHANGED}
    listener.stop()


@pytest.mark.spec("engine-23")
async def test_a_change_wakes_a_listener_in_the_same_process(store: Store) -> None:
    listener = Listener(store)
    await hears_while(listener, store)

    await enqueued(store)
    await listener.woken()

    listener.stop()


@pytest.mark.spec("engine-23", "engine-10")
async def test_room_that_came_free_wakes_a_listener(store: Store, elsewhere: Store) -> None:
    task = await running(store, await node(store))
    listener = Listener(elsewhere)
    await hears_while(listener, store)

    await complete(store, task)
    await listener.woken()

    listener.stop()


@pytest.mark.spec("engine-23")
async def test_a_wish_to_cancel_wakes_a_listener(store: Store, elsewhere: Store) -> None:
    task = await running(store, await node(store))
    listener = Listener(elsewhere)
    await hears_while(listener, store)

    await store.cancel(task.id, actor="ann")
    await listener.woken()

    listener.stop()


@pytest.mark.spec("engine-23")
async def test_one_who_stopped_listening_is_not_woken(store: Store, elsewhere: Store) -> None:
    gone, here = Listener(elsewhere), Listener(elsewhere)
    await hears_while(here, store)
    gone.stop()
    gone.hints.clear()

    await enqueued(store)
    await here.woken()

    assert gone.hints == []
    gone.stop()
    here.stop()
