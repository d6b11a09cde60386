"""Fault 8: the server that holds a yard is killed or set back, and its replica takes over."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from taskyard import State
from taskyard.domain.outcome import Finished, Stale
from tests.conformance.verbs import enqueued, finish, node, seen, succeeded
from tests.crash.conftest import Stage
from tests.crash.crew import wait_for
from tests.crash.enqueuer import insist
from tests.crash.proxy import Proxy
from tests.servers.redis import RedisServer
from tests.servers.redis_cluster import RedisCluster, is_in_sync, say

NAMESPACE = "yard"


class Failover:
    """A cluster of three masters, and a replica of the one that holds the yard."""

    def __init__(self) -> None:
        self._cluster = RedisCluster()
        self._cluster.start()
        self.master = self._cluster.master_of(NAMESPACE)
        self._replica: RedisServer = self._cluster.add_replica(self.master)
        self.url = f"{self._cluster.url}?namespace={NAMESPACE}"

    def catch_up(self) -> None:
        """The replica has everything that was acknowledged until now."""
        wanted = offset(self.master)
        wait_for(lambda: offset(self._replica) >= wanted, "a replica that catches up")

    def cut_off(self) -> None:
        """The replica gets nothing any more."""
        say(self.master, "ACL", "SETUSER", "default", "-psync", "-sync")
        say(self.master, "CLIENT", "KILL", "TYPE", "replica")

    def kill(self) -> None:
        self.master.stop(signal.SIGKILL)
        self._cluster.await_takeover(self._replica)

    def remove(self) -> None:
        self._cluster.remove()


def offset(server: RedisServer) -> int:
    """How far it has come in the stream of writes."""
    info = say(server, "INFO", "replication")
    return int(info.get("slave_repl_offset", info["master_repl_offset"]))


@pytest.fixture
def failover() -> Iterator[Failover]:
    made = Failover()
    yield made
    made.remove()


@pytest.mark.spec("reliability-8", "engine-18", "engine-30")
async def test_workers_go_on_by_themselves_when_a_replica_takes_over(
    failover: Failover, stage: Stage
) -> None:
    async with stage(failover.url) as scene:
        scene.lease = 120.0  # much longer than a takeover
        workers = [scene.worker(name) for name in ("a", "b")]
        exclusive = scene.kinds.gated.options(keys=["k"]).new(str(scene.gate), ["k"])
        held = await scene.enqueue_one(exclusive)
        scene.started(held)
        gated = [scene.kinds.gated.new(str(scene.gate), []) for _ in range(10)]
        running = await scene.enqueue(*gated)
        for task_id in running:
            scene.started(task_id)
        waiting = await scene.enqueue(
            *(scene.kinds.quick.options(keys=["k"]).new(["k"], "default") for _ in range(20))
        )
        failover.catch_up()

        await asyncio.to_thread(failover.kill)
        scene.open_gate()

        tasks = await scene.all_ended(held, *running, *waiting)
        found = {(task.state, task.attempt, task.losses) for task in tasks}
        assert found == {(State.COMPLETED, 1, 0)}
        later = await insist(lambda: scene.enqueue_one(scene.kinds.quick.new([], "default")))
        assert (await scene.ended(later)).state is State.COMPLETED
        assert all(worker.alive for worker in workers)
        assert await scene.broken() == []


@pytest.mark.spec("reliability-8", "engine-18", "engine-19", "engine-30")
async def test_what_the_replica_had_not_got_is_lost_and_nothing_of_it_is_believed(
    failover: Failover, stage: Stage
) -> None:
    async with stage(failover.url) as scene:
        store = scene.store
        before, after = [await node(store, name, lease_seconds=300) for name in ("before", "after")]
        kept = await enqueued(store)
        failover.catch_up()
        failover.cut_off()
        forgotten = await before.claim_one()
        lost = await enqueued(store)

        await asyncio.to_thread(failover.kill)
        await insist(store.now)

        assert await store.get(lost) is None
        current = await after.claim_one()
        assert (current.id, current.no, current.attempt) == (kept, forgotten.no, forgotten.attempt)
        stale = [Stale(forgotten.no, forgotten.attempt)]
        assert await finish(store, succeeded(forgotten)) == stale
        assert (await seen(store, kept)).state is State.RUNNING
        assert await finish(store, succeeded(current)) == [Finished(current.no, State.COMPLETED)]
        # The beat has a line of its own, which may still lead to the old one.
        news = await insist(lambda: asyncio.to_thread(before.beat))
        assert not news.lost


@pytest.mark.spec("reliability-8", "engine-18", "engine-30")
async def test_a_primary_that_became_a_replica_is_left_for_the_new_one(stage: Stage) -> None:
    """Behind one address, as managed servers have it: the old primary lives and keeps its lines."""
    old, new = RedisServer(), RedisServer()
    old.start()
    new.start()
    proxy = Proxy(old.port)
    say(new, "REPLICAOF", "127.0.0.1", old.port)
    try:
        async with stage(proxy.url(old.url)) as scene:
            scene.lease = 120.0  # much longer than this takes
            member = scene.worker("a")
            held = await scene.enqueue_one(scene.kinds.gated.new(str(scene.gate), []))
            scene.started(held)
            wait_for(lambda: is_in_sync(new), "a replica")
            wait_for(lambda: offset(new) >= offset(old), "a replica that catches up")

            say(new, "REPLICAOF", "NO", "ONE")
            say(old, "REPLICAOF", "127.0.0.1", new.port)
            proxy.lead_to(new.port)
            scene.open_gate()

            later = scene.kinds.quick.new([], "default")
            await insist(lambda: scene.yard.enqueue(later))
            tasks = await scene.all_ended(held, later.id)
            found = {(task.state, task.attempt, task.losses) for task in tasks}
            assert found == {(State.COMPLETED, 1, 0)}
            assert member.alive
            assert await scene.broken() == []
    finally:
        proxy.stop()
        old.remove()
        new.remove()
