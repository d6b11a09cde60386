"""A yard lives in one slot of a cluster; several namespaces spread over its nodes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from select import select
from socket import create_server
from typing import cast

import pytest
from redis import Redis

from taskyard.domain.errors import ConfigurationError, StoreUnavailable
from taskyard.domain.node import Lease, News, Usage
from taskyard.domain.outcome import Finished
from taskyard.domain.state import State
from taskyard.engine.heartbeat import Heartbeat
from taskyard.store.port import Hint, Store
from taskyard.store.redis.address import parse
from taskyard.store.redis.blocking import BlockingLink
from taskyard.store.redis.link import Wording
from taskyard.store.url import open_store
from tests.conformance.verbs import enqueued, finish, node, running, succeeded
from tests.servers.redis_cluster import RedisCluster, say


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


@pytest.mark.spec("engine-30")
async def test_any_number_of_calls_may_be_made_at_once(cluster: RedisCluster) -> None:
    async with AsyncExitStack() as stack:
        store = await entered(stack, f"{cluster.url}?namespace=crowd")
        await asyncio.gather(*(enqueued(store) for _ in range(300)))

        assert (await store.counts())[State.QUEUED] == 300


@pytest.mark.spec("engine-27", "engine-30")
async def test_a_lone_node_of_a_cluster_is_refused(cluster: RedisCluster) -> None:
    """Whichever of them the yard would be on."""
    for number in range(6):
        store = open_store(f"redis://127.0.0.1:{cluster.nodes[0].port}?namespace=lone_{number}")
        with pytest.raises(ConfigurationError, match=r"use redis\+cluster://127\.0\.0\.1"):
            await store.open()
        await store.close()


@pytest.mark.spec("engine-27", "engine-30")
async def test_a_lone_node_that_does_not_tell_is_known_by_its_answers(
    cluster: RedisCluster,
) -> None:
    def sent_away(number: int) -> bool:
        return cluster.master_of(f"lone_{number}") is not cluster.nodes[0]

    number = next(filter(sent_away, range(100)))
    say(cluster.nodes[0], "ACL SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", "-info")
    url = f"redis://ann:pw@127.0.0.1:{cluster.nodes[0].port}?namespace=lone_{number}"
    store = open_store(url)
    with pytest.raises(StoreUnavailable, match=r"use redis\+cluster://127\.0\.0\.1"):
        await store.open()
    await store.close()


class SilentCluster:
    """Nodes that take every connection and say nothing, and what a heartbeat asks of a store."""

    def __init__(self, stack: ExitStack) -> None:
        self._nodes = [stack.enter_context(create_server(("127.0.0.1", 0))) for _ in range(8)]
        places = ",".join(f"127.0.0.1:{node.getsockname()[1]}" for node in self._nodes)
        self._link = BlockingLink(parse(f"redis+cluster://{places}"), Wording("silent"))
        stack.callback(self._link.close)

    def beat(self, lease: Lease, *, timeout: float, usage: Usage | None = None) -> News:
        self._link.write("beat", lease, timeout=timeout)
        raise AssertionError("somebody has answered")

    def unasked(self) -> int:
        """How many nodes nobody has connected to."""
        return sum(not select([node], [], [], 0)[0] for node in self._nodes)


class Busy:
    """A worker with one body."""

    def __init__(self) -> None:
        self.count = 1

    def bodies(self) -> int:
        return self.count

    def overdue(self, _now: float) -> str | None:
        return None


@pytest.mark.spec("engine-20", "engine-30")
def test_a_beat_waits_for_no_more_silent_nodes_than_its_time_allows() -> None:
    """Also if an earlier beat is still under way."""
    with ExitStack() as stack:
        cluster = SilentCluster(stack)
        for timeout in (0.5, 5.0):  # the second fails soon: the first is still under way
            with pytest.raises(StoreUnavailable, match="in time"):
                cluster.beat(1, timeout=timeout)

        assert cluster.unasked() > 0


@pytest.mark.spec("engine-20", "engine-30")
async def test_bodies_are_told_to_stop_while_a_silent_cluster_still_keeps_the_lease() -> None:
    """To ask all nodes in turn would take longer than the lease."""
    worker, told = Busy(), asyncio.Event()
    held: list[bool] = []
    left: list[int] = []

    def stop_bodies() -> None:
        held.append(heartbeat.holds)
        worker.count = 0
        told.set()

    with ExitStack() as stack:
        heartbeat = Heartbeat(
            *(cast(Store, SilentCluster(stack)), 1, 6.0, worker),
            on_news=lambda _: None,
            on_danger=stop_bodies,
            leave=left.append,
        )
        heartbeat.start()
        async with asyncio.timeout(30):
            await told.wait()
            await heartbeat.stop()

    assert held == [True]
    assert left == []
