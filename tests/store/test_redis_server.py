"""A server that restarts, is full, is a replica, wants a password, or is none at all."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from redis import Redis

from taskyard.domain.cron import Cron, Ticks
from taskyard.domain.errors import (
    ConfigurationError,
    SchemaMismatch,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from taskyard.domain.lane import LaneChange
from taskyard.domain.node import News
from taskyard.domain.outcome import Finished, Stale
from taskyard.domain.rate import Rate
from taskyard.domain.retention import Retention
from taskyard.domain.state import State
from taskyard.domain.statistics import Count
from taskyard.domain.task import Progress, TaskQuery
from taskyard.store.port import ClaimRequest, Hint, Store
from taskyard.store.redis import hints
from taskyard.store.redis.address import DEFAULT_TIMEOUT
from taskyard.store.redis.scripts import all_keys, key_prefix
from taskyard.store.redis.server import Server, refuse_unfit
from taskyard.store.url import open_store
from tests.conformance.verbs import enqueued, finish, new, node, running, seen, succeeded
from tests.crash.proxy import Proxy
from tests.servers.redis import RedisServer

Start = Callable[..., RedisServer]


@pytest.fixture
def start() -> Iterator[Start]:
    servers: list[RedisServer] = []

    def start(*options: str) -> RedisServer:
        server = RedisServer(*options)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.remove()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def client(server: RedisServer, **options: Any) -> Redis:
    return Redis(port=server.port, **options)


@pytest.mark.spec("engine-30")
async def test_a_store_survives_a_flush_of_the_scripts(start: Start) -> None:
    server = start()
    async with opened(server.url) as store:
        worker = await node(store)
        task = await running(store, worker)
        with client(server) as admin:
            admin.script_flush()

        assert not worker.beat().lost
        assert await worker.holds()
        assert await finish(store, succeeded(task)) == [Finished(task.no, State.COMPLETED)]


@pytest.mark.spec("engine-30", "engine-18")
async def test_a_store_goes_on_when_its_server_has_restarted(start: Start) -> None:
    server = start("--appendfsync", "always")
    async with opened(server.url) as store:
        worker = await node(store)
        task = await running(store, worker)
        server.stop(signal.SIGKILL)
        with pytest.raises(StoreUnavailable, match=str(server.port)):
            await enqueued(store)
        with pytest.raises(StoreUnavailable, match=str(server.port)):
            store.beat(worker.lease, timeout=5)
        server.start()

        assert not worker.beat().lost
        assert await worker.holds()
        assert await finish(store, succeeded(task)) == [Finished(task.no, State.COMPLETED)]


@pytest.mark.spec("engine-23", "engine-30")
async def test_hints_are_heard_again_after_a_restart(start: Start) -> None:
    server = start()
    async with opened(server.url) as store, opened(server.url) as other:
        heard = asyncio.Event()

        def wake(_hint: Hint) -> None:
            heard.set()

        stop = store.listen(wake)
        async with asyncio.timeout(30):
            await heard.wait()
        server.stop()
        server.start()
        heard.clear()
        async with asyncio.timeout(30):
            await heard.wait()  # it says so when it listens again
        heard.clear()
        await enqueued(other)
        async with asyncio.timeout(30):
            await heard.wait()
        stop()


def await_no_listener(server: RedisServer) -> None:
    until = time.monotonic() + 30
    with client(server) as admin:
        while admin.client_list(_type="pubsub"):
            assert time.monotonic() < until, "somebody still listens"


@pytest.mark.spec("engine-23", "engine-30")
async def test_a_line_that_dies_without_a_word_is_replaced(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "LISTEN_SECONDS", 0.2)
    server = start()
    proxy = Proxy(server.port)
    heard = asyncio.Event()
    try:
        async with opened(proxy.url(server.url)) as store, opened(server.url) as other:
            store.listen(lambda _: heard.set())
            async with asyncio.timeout(30):
                await heard.wait()
                proxy.mute = True
                await asyncio.to_thread(await_no_listener, server)
                heard.clear()
                proxy.mute = False
                await heard.wait()  # as whenever it has connected again
                heard.clear()
                await enqueued(other)
                await heard.wait()
    finally:
        proxy.stop()


@pytest.mark.spec("engine-23", "engine-30")
async def test_a_listener_that_fails_keeps_nobody_from_hearing(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    url = start().url
    heard = asyncio.Event()

    def fail(_hint: Hint) -> None:
        raise RuntimeError("no ears")

    async with opened(url) as store, opened(url) as other:
        store.listen(fail)
        store.listen(lambda _: heard.set())
        async with asyncio.timeout(30):
            await heard.wait()
            heard.clear()
            await enqueued(other)
            await heard.wait()

    assert "no ears" in caplog.text


@pytest.mark.spec("engine-18", "engine-30")
async def test_a_server_that_lost_its_tasks_accepts_nothing_of_before(start: Start) -> None:
    server = start("--appendonly", "no")
    async with opened(server.url) as store:
        worker = await node(store)
        old = await running(store, worker)
        server.stop(signal.SIGKILL)
        server.start()
        await store.now()  # reads are tried twice: the old connection is gone
        newer = await node(store, "node-b")
        current = await running(store, newer)

        assert (newer.lease, current.no) > (worker.lease, old.no)
        assert worker.beat() == News(lost=True)
        assert await finish(store, succeeded(old)) == [Stale(old.no, old.attempt)]
        assert (await seen(store, current.id)).state is State.RUNNING


@pytest.mark.spec("engine-30")
async def test_a_full_server_refuses_the_whole_call(start: Start) -> None:
    server = start("--maxmemory", "3mb")
    async with opened(server.url) as store:
        saved: list[str] = []

        async def fill() -> None:
            while True:
                saved.append(await enqueued(store, payload='"' + "x" * 50_000 + '"'))

        with pytest.raises(StoreFull, match="memory"):
            await fill()

        assert saved
        assert [task.id for task in await store.find(TaskQuery(limit=1000))] == saved[::-1]
        assert sum((await store.counts()).values()) == len(saved)


@contextmanager
def full_memory(server: RedisServer) -> Iterator[None]:
    with client(server) as admin:
        admin.config_set("maxmemory", 1)
        yield
        admin.config_set("maxmemory", 0)


@pytest.mark.spec("engine-20", "engine-30", "reliability-13")
async def test_on_a_full_server_leases_hold_and_work_goes_on(start: Start) -> None:
    """Nothing new comes in, so what this takes is bounded by what is there."""
    server = start()
    async with opened(server.url) as store:
        worker, leaving = await node(store), await node(store, "node-b")
        task = await running(store, worker, keys=("k",))
        released = await running(store, leaving)
        waiting = await enqueued(store, keys=("k",))
        other = await enqueued(store)
        before = await store.nodes()

        with full_memory(server):
            with pytest.raises(StoreFull, match="memory"):
                await enqueued(store)
            async with opened(server.url) as another:
                wrong = [check for check in await another.diagnose() if not check.ok]
            assert [check.name for check in wrong] == ["memory"]
            assert "it is full: new tasks are refused, what waits runs" in wrong[0].text

            assert not worker.beat().lost
            assert await worker.holds() == {task.hold}
            assert (await store.nodes())[0].seen_at > before[0].seen_at
            assert await store.take_duty("rescue", worker.lease, 10)
            assert await store.report(task.hold, Progress(1.0))
            assert await store.cancel(other, actor="ann") == "cancelled"
            request = ClaimRequest(lease=worker.lease, number=99, room=5)
            turn = await store.turn([succeeded(task, '"done"')], request)
            assert turn.finished == [Finished(task.no, State.COMPLETED)]
            assert [claimed.id for claimed in turn.claim.tasks] == [waiting]
            await store.retire(leaving.lease)
            assert (await seen(store, task.id)).result == '"done"'
            assert (await seen(store, released.id)).state is State.QUEUED

            # Without this a full server that has lost its workers could never empty.
            newcomer = await node(store, "node-c")
            assert await newcomer.claim_ids(5) == [released.id]


@pytest.mark.spec("engine-30", "engine-17", "engine-25")
async def test_on_a_full_server_what_was_accepted_goes_its_way(start: Start) -> None:
    """Dependents are let go, pauses end, rates let the next one start; ticks start nothing new."""
    server = start()
    async with opened(server.url) as store:
        worker = await node(store)
        await store.set_lane("slow", LaneChange(rate=Rate(1, 3600)), actor="ann")
        first = await running(store, worker)
        dependent = await enqueued(store, depends_on=(first.id,), lane="slow")
        doomed = await enqueued(store, depends_on=(dependent,), keys=("k",))
        cron = Cron(name="nightly", schedule="0 2 * * *", task=new())
        await store.set_cron(cron, 1, actor="ann")
        asleep = await enqueued(store, kind="other")
        await store.pause(asleep, actor="ann")

        with full_memory(server):
            for brings_something_new in (
                store.fire_cron("nightly", 1, [new()], Ticks((1,), 2)),
                store.set_cron(replace(cron, name="daily"), 1, actor="ann"),
                store.tally([Count("work", "default", "completed", 1)]),
            ):
                with pytest.raises(StoreFull):
                    await brings_something_new

            assert await store.checkpoint(first.hold, '{"page": 7}')
            assert await finish(store, succeeded(first)) == [Finished(first.no, State.COMPLETED)]
            assert (await seen(store, dependent)).state is State.QUEUED
            assert await worker.claim_ids(5) == [dependent]
            assert (await store.promote()).next_due is not None
            assert await store.pause(dependent, actor="ann") == "asked"
            await store.resume(dependent, actor="ann")
            await store.resume(asleep, actor="ann")
            await store.cancel(doomed, actor="ann")
            assert await store.drop_cron("nightly", actor="ann")
            assert [task.state for task in await store.find(TaskQuery())] == [
                *(State.QUEUED, State.CANCELLED, State.RUNNING, State.COMPLETED),
            ]


@pytest.mark.spec("engine-30", "lifecycle-15")
async def test_a_full_server_can_be_pruned(start: Start) -> None:
    nothing = timedelta(0)
    retention = Retention(completed=nothing, failed=nothing, cancelled=nothing)
    server = start()
    async with opened(server.url) as store:
        task = await running(store, await node(store))
        await finish(store, succeeded(task))
        with full_memory(server):
            step = await store.prune(retention, actor="ann")
            assert step.tasks == 1
            while step.mark is not None:
                step = await store.prune(retention, actor="ann", after=step.mark)
            assert await store.get(task.id) is None
            assert (await store.audit(limit=1))[0].action == "prune"


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize("made", [False, True])
async def test_a_replica_is_not_written_to(start: Start, made: bool) -> None:
    """Nor opened, also if there is a yard already: what it shows may be old."""
    primary = start()
    if made:
        async with opened(primary.url) as store:
            await enqueued(store)
    replica = start("--replicaof", "127.0.0.1", str(primary.port))
    store = open_store(replica.url)
    until = asyncio.get_running_loop().time() + 30
    while await store.exists() is not made:
        assert asyncio.get_running_loop().time() < until, "the replica does not follow"

    with pytest.raises(StoreReadOnly, match="primary"):
        await store.open()
    await store.close()


@pytest.mark.spec("engine-30")
async def test_nobody_there_is_said_with_the_address() -> None:
    store = open_store("redis://:hidden@127.0.0.1:1")
    with pytest.raises(StoreUnavailable, match=r"redis://127\.0\.0\.1:1") as caught:
        await store.open()

    assert "hidden" not in str(caught.value)
    with pytest.raises(StoreUnavailable):
        await store.exists()
    await store.close()


@pytest.mark.spec("engine-30", "security-10")
@pytest.mark.parametrize("credentials", ["", ":wrong@", "ann:wrong@"])
async def test_a_wrong_password_is_the_urls_mistake(start: Start, credentials: str) -> None:
    server = start("--requirepass", "right")
    url = server.url.replace("//", f"//{credentials}")
    store = open_store(url)
    with pytest.raises(ConfigurationError, match="password") as caught:
        await store.open()
    assert "wrong" not in str(caught.value)
    await store.close()

    async with opened(server.url.replace("//", "//:right@")) as store:
        await enqueued(store)


@pytest.mark.spec("engine-30")
async def test_a_user_with_few_rights_can_work(start: Start) -> None:
    server = start()
    with client(server) as admin:
        admin.execute_command(
            *("ACL SETUSER", "ann", "on", ">pw", "~taskyard:v1:*"),
            *("resetchannels", "&taskyard:v1:*", "+@all", "-@dangerous", "-@admin"),
        )
    async with opened(server.url.replace("//", "//ann:pw@")) as store:
        await enqueued(store)
        durability = {check.name: check for check in await store.diagnose()}["durability"]

        assert "unknown: the server answers neither INFO nor CONFIG GET" in durability.text


@pytest.mark.spec("engine-30")
async def test_a_user_who_may_not_publish_can_work_and_that_is_said(start: Start) -> None:
    """What a call has written is not taken back by a hint that is refused."""
    server = start()
    with client(server) as admin:
        admin.execute_command(
            *("ACL SETUSER", "ann", "on", ">pw", "~taskyard:v1:*", "resetchannels", "+@all")
        )
    async with opened(server.url) as store:
        assert {check.name: check.ok for check in await store.diagnose()}["hints"]
    async with opened(server.url.replace("//", "//ann:pw@")) as store:
        task = await running(store, await node(store))
        assert await finish(store, succeeded(task)) == [Finished(task.no, State.COMPLETED)]
        wrong = [check for check in await store.diagnose() if not check.ok]

    assert [check.name for check in wrong] == ["hints"]
    assert "&taskyard:v1:*" in wrong[0].text


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize(
    ("renamed", "aof", "ok", "words"),
    [
        (("CONFIG",), "yes", True, "appendfsync unknown (the server refuses CONFIG GET)"),
        (("CONFIG",), "no", False, "whether snapshots are taken is unknown"),
        (("INFO",), "yes", True, "appendfsync everysec"),
        (("CONFIG", "INFO"), "yes", True, "persistence unknown"),
    ],
)
async def test_a_server_that_refuses_to_tell_its_settings_is_used_and_that_is_said(
    start: Start, renamed: tuple[str, ...], aof: str, ok: bool, words: str
) -> None:
    """As managed servers do."""
    gone = [word for command in renamed for word in ("--rename-command", command, "")]
    server = start("--appendonly", aof, *gone)
    async with opened(server.url) as store:
        await enqueued(store)
        checks = {check.name: check for check in await store.diagnose()}

    assert checks["durability"].ok is ok
    assert words in checks["durability"].text


@pytest.mark.spec("engine-30")
async def test_a_yard_of_a_newer_version_is_refused(start: Start) -> None:
    server = start()
    async with opened(server.url):
        pass
    with client(server) as admin:
        admin.hset(f"{key_prefix('taskyard')}meta", "schema", "99")

    store = open_store(server.url)
    with pytest.raises(SchemaMismatch, match="99"):
        await store.open()
    await store.close()


@pytest.mark.spec("engine-30")
async def test_a_server_that_would_evict_tasks_is_refused_unless_forced(start: Start) -> None:
    server = start("--maxmemory-policy", "allkeys-lru")
    store = open_store(server.url)
    with pytest.raises(ConfigurationError, match="noeviction"):
        await store.open()
    await store.close()

    async with opened(f"{server.url}?force=1") as store:
        await enqueued(store)
        assert [check.name for check in await store.diagnose() if not check.ok] == ["memory"]


@pytest.mark.spec("engine-30")
def test_an_old_server_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"6\.0\.9.*6\.2"):
        refuse_unfit(Server(version="6.0.9"), force=False)
    refuse_unfit(Server(version="6.2.0"), force=False)
    refuse_unfit(Server(version="10.1"), force=False)
    refuse_unfit(Server(), force=False)


@pytest.mark.spec("engine-18", "engine-30")
@pytest.mark.parametrize(
    ("options", "ok", "words"),
    [
        (("--appendfsync", "always"), True, "survives a crash"),
        (("--appendfsync", "everysec"), True, "may lose the last second"),
        (
            ("--appendfsync", "always", "--no-appendfsync-on-rewrite", "yes"),
            True,
            "while the server rewrites its log",
        ),
        (("--appendonly", "no"), False, "loses every task"),
        (("--appendonly", "no", "--save", "60", "1"), False, "since the last one"),
    ],
)
async def test_what_a_crash_loses_is_said(
    start: Start, options: tuple[str, ...], ok: bool, words: str
) -> None:
    async with opened(start(*options).url) as store:
        durability = {check.name: check for check in await store.diagnose()}["durability"]

    assert durability.ok is ok
    assert words in durability.text


@pytest.mark.spec("engine-24", "engine-30")
async def test_a_cancelled_call_is_cancelled_wherever_it_was(start: Start) -> None:
    """A driver that swallows it would keep a worker from stopping."""
    async with opened(start().url) as store:
        for steps in range(30):
            call = asyncio.create_task(store.promote())
            for _ in range(steps):
                await asyncio.sleep(0)
            if call.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await call


@pytest.mark.spec("engine-20", "engine-30")
async def test_a_server_that_hangs_does_not_hold_a_beat_up(start: Start) -> None:
    server = start()
    async with opened(server.url) as store:
        worker = await node(store)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable, match="in time"):
                store.beat(worker.lease, timeout=0.2)
        finally:
            os.kill(server.pid, signal.SIGCONT)

        assert not worker.beat().lost


@pytest.mark.spec("engine-30")
async def test_the_url_says_how_long_an_answer_is_waited_for(start: Start) -> None:
    server = start()
    async with opened(f"{server.url}?timeout=1.5") as store:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(DEFAULT_TIMEOUT / 2):
                with pytest.raises(StoreUnavailable, match="in time"):
                    await enqueued(store)
        finally:
            os.kill(server.pid, signal.SIGCONT)


@pytest.mark.spec("engine-27")
async def test_looking_whether_a_yard_exists_makes_none(start: Start) -> None:
    server = start()
    store = open_store(server.url)
    assert not await store.exists()
    with client(server) as admin:
        assert admin.dbsize() == 0

    await store.open()
    assert await store.exists()
    await store.close()
    assert await store.exists()
    await store.close()


@pytest.mark.spec("engine-27")
async def test_namespaces_keep_yards_apart(start: Start) -> None:
    server = start()
    async with opened(server.url) as one, opened(f"{server.url}?namespace=other") as other:
        await enqueued(one)

        assert sum((await other.counts()).values()) == 0


@pytest.mark.spec("engine-30")
async def test_a_yard_has_a_fixed_set_of_keys(start: Start) -> None:
    server = start()
    async with opened(server.url) as store:
        worker = await node(store)
        for lane in range(5):
            await running(store, worker, lane=f"lane-{lane}", keys=(f"key-{lane}",))
        with client(server) as admin:
            names = {name.decode() for name in admin.scan_iter()}

    assert names <= {key_prefix("taskyard") + key for key in all_keys()}


@contextmanager
def frozen(server: RedisServer) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def begun(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A call of which the first words are said, if nothing holds it up before."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    return task


@pytest.mark.spec("engine-30")
async def test_a_call_under_way_ends_before_the_store_is_closed(start: Start) -> None:
    server = start()
    store = open_store(server.url)
    await store.open()
    with frozen(server):
        call = await begun(enqueued(store))
        closing = await begun(store.close())
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.now()
        assert not closing.done()
    saved = await call
    await closing

    async with opened(server.url) as store:
        assert (await seen(store, saved)).state is State.QUEUED


@pytest.mark.spec("engine-30")
async def test_a_store_that_is_closed_connects_no_more(start: Start) -> None:
    server = start()
    store = open_store(f"{server.url}?timeout=1.5")
    await store.open()
    with frozen(server):
        calls = [await begun(store.counts()), await begun(store.promote())]
        await store.close()
        for call in calls:
            with pytest.raises(StoreUnavailable):
                await call
    with client(server) as admin:
        until = asyncio.get_running_loop().time() + 30
        while len(admin.client_list()) > 1:
            assert asyncio.get_running_loop().time() < until, "a connection is left"
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.counts()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.beat(1, timeout=1.0)


@pytest.mark.spec("engine-27", "engine-30")
async def test_a_look_at_the_schema_does_not_disturb_who_opens_or_closes(start: Start) -> None:
    store = open_store(start().url)
    for _ in range(10):
        await asyncio.gather(*(store.schema() for _ in range(3)), store.open(), store.exists())
        await asyncio.gather(store.schema(), enqueued(store))
        await asyncio.gather(store.close(), store.schema())


@pytest.mark.spec("engine-30")
def test_a_store_can_be_used_from_one_loop_after_another(start: Start) -> None:
    store = open_store(start().url)

    async def use() -> int:
        await store.open()
        try:
            await enqueued(store)
            return (await store.counts())[State.QUEUED]
        finally:
            await store.close()

    assert [asyncio.run(use()) for _ in range(3)] == [1, 2, 3]
