"""A yard lives in one slot of a cluster; several namespaces spread over its nodes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from redis import Redis

from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.outcome import Finished
from taskyard.domain.state import State
from taskyard.store.port import Hint, Store
from taskyard.store.url import open_store
from tests.conformance.verbs import enqueued, finish, node, running, succeeded
from tests.servers.redis_cluster import RedisCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    cluster = RedisCluster()
    cluster.start()
    yield cluster
    cluster.remove()


async def entered(stack: AsyncExitStack, url: str) -> Store:
    store = open_store(url)
    stack.push_async_callback(store.close)
    assert not await store.exists()
    await store.open()
    return store


@pytest.mark.spec("engine-27", "engine-30")
async def test_tasks_run_on_a_cluster(cluster: RedisCluster) -> None:
    async with AsyncExitStack() as stack:
        stores = [
            await entered(stack, f"{cluster.url}?namespace=yard_{number}") for number in range(6)
        ]
        for store in stores:
            worker = await node(store)
            task = await running(store, worker, lane="slow", keys=("k",))
            waiting = await enqueued(store, keys=("k",))

            assert not worker.beat().lost
            assert await worker.holds()
            assert await finish(store, succeeded(task)) == [Finished(task.no, State.COMPLETED)]
            assert await worker.claim_ids(10) == [waiting]
            assert [check for check in await store.diagnose() if not check.ok] == []

    for server in cluster.nodes:
        with Redis(port=server.port) as client:
            assert client.dbsize() > 0


@pytest.mark.spec("engine-23", "engine-30")
async def test_hints_are_heard_on_every_node_of_a_cluster(cluster: RedisCluster) -> None:
    async with AsyncExitStack() as stack:
        for number in range(4):
            url = f"{cluster.url}?namespace=hints_{number}"
            store = await entered(stack, url)
            other = open_store(url)
            stack.push_async_callback(other.close)
            heard = asyncio.Event()

            def wake(_hint: Hint, heard: asyncio.Event = heard) -> None:
                heard.set()

            store.listen(wake)
            async with asyncio.timeout(30):
                await heard.wait()
                heard.clear()
                await enqueued(other)
                await heard.wait()


@pytest.mark.spec("engine-18", "engine-30")
async def test_a_cluster_that_is_gone_and_comes_back_is_found_again() -> None:
    cluster = RedisCluster()
    cluster.start()
    try:
        async with AsyncExitStack() as stack:
            store = await entered(stack, cluster.url)
            worker = await node(store)
            task = await running(store, worker)
            for server in cluster.nodes:
                server.stop(signal.SIGKILL)
            for _ in cluster.nodes:  # whichever of them it asks
                with pytest.raises(StoreUnavailable, match=str(cluster.nodes[0].port)):
                    await enqueued(store)
                with pytest.raises(StoreUnavailable, match=str(cluster.nodes[0].port)):
                    worker.beat()
            for server in cluster.nodes:
                server.start()
            cluster.await_ready()

            assert not worker.beat().lost
            assert await worker.holds() == {task.hold}
            assert await finish(store, succeeded(task)) == [Finished(task.no, State.COMPLETED)]
    finally:
        cluster.remove()
