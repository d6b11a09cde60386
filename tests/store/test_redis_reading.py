"""Lists and figures cost the same however many tasks there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from taskyard.domain.state import State
from taskyard.domain.task import Task, TaskQuery
from taskyard.store.port import Store
from taskyard.store.redis.scripts import key_prefix
from taskyard.store.url import open_store
from tests.conformance.verbs import complete, enqueued, new, node, running
from tests.servers.redis import RedisServer

MANY = 3000
PAGE = 20

LOOKS: dict[str, Callable[[Store, str], Awaitable[Any]]] = {
    "counts": lambda store, _: store.counts(),
    "lanes": lambda store, _: store.lanes(),
    "nodes": lambda store, _: store.nodes(),
    "keys": lambda store, _: store.keys(),
    "key_rules": lambda store, _: store.key_rules(),
    "crons": lambda store, _: store.crons(),
    "tallied": lambda store, _: store.tallied(0),
    "audit": lambda store, _: store.audit(limit=5),
    "get": lambda store, task: store.get(task),
    "endings": lambda store, task: store.endings([task]),
    "explain": lambda store, task: store.explain(task),
    "find": lambda store, _: store.find(TaskQuery(limit=PAGE)),
    "find by state": lambda store, _: store.find(TaskQuery(state=State.QUEUED, limit=PAGE)),
    "find by lane": lambda store, _: store.find(TaskQuery(lane="default", limit=PAGE)),
    "find by kind": lambda store, _: store.find(TaskQuery(kind="work", limit=PAGE)),
    "find by key": lambda store, _: store.find(TaskQuery(key="k", limit=PAGE)),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    made.start()
    yield made
    made.remove()


async def filled(store: Store, tasks: int) -> str:
    """Some running, some ended, the others waiting for their turn or for a key; answers one."""
    worker = await node(store)
    await complete(store, await running(store, worker))
    await running(store, worker, keys=("k",))
    made = [new(keys=("k",) if number % 2 else ()) for number in range(tasks)]
    for at in range(0, tasks, 1000):
        await store.enqueue(made[at : at + 1000])
    return await enqueued(store)


def commands(admin: Redis) -> dict[str, int]:
    """How often each command has run since the figures were set back."""
    stats: Any = admin.info("commandstats")
    found = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}
    ours = ("info", "config", "config|resetstat", "hello", "client", "client|setinfo", "select")
    return {name: calls for name, calls in found.items() if name not in ours}


@pytest.mark.spec("engine-30", "lifecycle-7")
async def test_no_look_takes_more_commands_where_there_are_more_tasks(server: RedisServer) -> None:
    taken: list[dict[str, dict[str, int]]] = []
    with Redis(port=server.port) as admin:
        for tasks in (2 * PAGE, MANY):
            store = open_store(f"{server.url}?namespace=yard_{tasks}")
            await store.open()
            task_id = await filled(store, tasks)
            for look in LOOKS.values():
                await look(store, task_id)  # the scripts are known from here on
            each: dict[str, dict[str, int]] = {}
            for name, look in LOOKS.items():
                admin.config_resetstat()
                await look(store, task_id)
                each[name] = commands(admin)
            taken.append(each)
            await store.close()

    few, many = taken
    assert few == many
    assert all(figures["evalsha"] == 1 for figures in many.values())


@pytest.mark.spec("engine-20", "engine-30")
async def test_a_beat_reads_no_task_that_nobody_asks_anything_of(server: RedisServer) -> None:
    store = open_store(f"{server.url}?namespace=beats")
    await store.open()
    worker = await node(store, slots=10)
    tasks = [await running(store, worker) for _ in range(10)]
    await store.cancel(tasks[0].id, actor="ann")
    with Redis(port=server.port) as admin:

        async def beats() -> dict[str, int]:
            assert (await store.news(worker.lease)) == worker.beat()
            admin.config_resetstat()
            worker.beat()
            return commands(admin)

        asked = await beats()
        await complete(store, tasks[0])
        quiet = await beats()
        assert admin.zcard(f"{key_prefix('beats')}asked") == 0
    await store.close()

    assert "hmget" in asked
    assert "hmget" not in quiet


@pytest.mark.spec("engine-30", "lifecycle-7")
async def test_tasks_of_many_lanes_are_found_newest_first(server: RedisServer) -> None:
    """More lanes than a page has places, each with another number of tasks."""
    store = open_store(f"{server.url}?namespace=lanes")
    await store.open()
    made = [new(lane=f"lane-{number * number % 61}") for number in range(300)]
    await store.enqueue(made)

    seen: list[Task] = []
    while page := await store.find(TaskQuery(limit=7, after=seen[-1].no if seen else None)):
        seen += page
    assert [task.id for task in seen] == [task.id for task in reversed(made)]
    await store.close()
