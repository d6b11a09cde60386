"""A server that cannot be used: one line says what is wrong, where, and what to do."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import asyncpg
import pytest
from redis import Redis

from taskyard.store.redis.scripts import key_prefix
from tests.cli.program import Done, Program
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.rewriting import Rewriting

UNAVAILABLE, CONFIGURATION = 5, 6
PASSWORD = "open-sesame"
NOBODY = 1  # tcpmux: nobody listens there

Servers = tuple[PostgresServer, RedisServer]
Urls = Callable[[PostgresServer, RedisServer], str]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """Ann needs a password, bob is let in nowhere, and carl may make nothing."""
    server = PostgresServer(
        rules=["host all ann 127.0.0.1/32 scram-sha-256", "host all bob 127.0.0.1/32 reject"]
    )
    server.start()
    sql(
        server,
        f"CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}'",
        "CREATE ROLE bob LOGIN",
        "CREATE ROLE carl LOGIN",
    )
    yield server
    server.remove()


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    """Ann may run everything but scripts."""
    server = RedisServer()
    server.start()
    with Redis(port=server.port) as admin:
        admin.execute_command(
            "ACL SETUSER", "ann", "on", f">{PASSWORD}", "~*", "&*", "+@all", "-evalsha", "-eval"
        )
    yield server
    server.remove()


@pytest.fixture(scope="module")
def servers(postgres: PostgresServer, redis: RedisServer) -> Servers:
    return postgres, redis


def sql(server: PostgresServer, *statements: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(server.url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(run())


def of(server: PostgresServer, user: str, database: str = "postgres", query: str = "") -> str:
    return f"postgresql://{user}@127.0.0.1:{server.port}/{database}{query}"


@contextmanager
def speaking(answer: bytes) -> Iterator[int]:
    """A server of another protocol: says one thing, whatever it hears, and hangs up."""

    def serve() -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            with link:
                link.recv(1000)
                link.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def refused(taskyard: Program, url: str, *words: str) -> Done:
    """What the program says to it, in one line that tells no password."""
    done = taskyard.try_to("migrate", "--url", url)
    for word in words:
        assert word in done.complaint
    assert PASSWORD not in done.err
    assert done.out == ""
    return done


@pytest.mark.spec("engine-29", "engine-30", "security-10")
@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        (lambda p, _: of(p, "ann:wrong"), UNAVAILABLE, ["refuses this user or password", "URL"]),
        (lambda p, _: of(p, "ann"), UNAVAILABLE, ["refuses this user or password", "URL"]),
        (lambda p, _: of(p, f"bob:{PASSWORD}"), UNAVAILABLE, ["refuses this user", "pg_hba.conf"]),
        (lambda p, _: of(p, "nonsuch"), UNAVAILABLE, ['role "nonsuch" does not exist']),
        (lambda p, _: of(p, "carl"), UNAVAILABLE, ["may not do that (permission denied", "grant"]),
        (lambda p, _: of(p, "postgres", "nonsuch"), UNAVAILABLE, ["no such database", "createdb"]),
        (
            lambda p, _: of(p, "postgres", query="?sslmode=require"),
            UNAVAILABLE,
            ["offers no TLS", "sslmode"],
        ),
        (
            lambda p, _: of(p, "postgres", query="?sslmode=perhaps"),
            CONFIGURATION,
            ["sslmode", "must be one of", "correct the URL"],
        ),
        (
            lambda p, _: of(p, "postgres", query="?sslmode=verify-full&sslrootcert=/nonsuch"),
            CONFIGURATION,
            ["a file", "is not there"],
        ),
        (
            lambda p, _: of(p, "postgres", query="?target_session_attrs=standby"),
            UNAVAILABLE,
            ["target_session_attrs"],
        ),
        (
            lambda p, _: of(p, "postgres", query="?nonsuch=1"),
            CONFIGURATION,
            ["unknown option nonsuch", "timeout"],
        ),
        (
            lambda p, _: of(p, "postgres", query="?timeout=soon"),
            CONFIGURATION,
            ["timeout must be seconds", "'soon'"],
        ),
        (
            lambda p, _: of(p, "postgres", query="?migrate=no"),
            CONFIGURATION,
            ["migrate must be 0 or 1", "'no'"],
        ),
        (
            lambda _, r: f"postgresql://ann@127.0.0.1:{r.port}/x?timeout=1",
            UNAVAILABLE,
            ["is it a PostgreSQL server"],
        ),
        (
            lambda *_: f"postgresql://ann:{PASSWORD}@127.0.0.1:{NOBODY}/x",
            UNAVAILABLE,
            [f"127.0.0.1:{NOBODY}/x cannot be reached", "nobody listens there", "port"],
        ),
        (
            lambda *_: f"postgresql://ann:{PASSWORD}@nonsuch.invalid/x",
            UNAVAILABLE,
            ["nonsuch.invalid/x cannot be reached", "host is unknown", "check the name"],
        ),
        (
            lambda *_: "postgresql://127.0.0.1:99999/x",
            CONFIGURATION,
            ["a port is a number from 1 to 65535, not '99999'"],
        ),
        (
            lambda _, r: f"redis://:wrong@127.0.0.1:{r.port}",
            UNAVAILABLE,
            ["refuses the user or the password", "check both"],
        ),
        (
            lambda _, r: f"redis://ann:{PASSWORD}@127.0.0.1:{r.port}",
            UNAVAILABLE,
            ["does not allow this user what is needed", "eval", "grant"],
        ),
        (
            lambda _, r: f"redis://127.0.0.1:{r.port}/99",
            UNAVAILABLE,
            ["/99: there is no database of this number", "smaller"],
        ),
        (
            lambda _, r: f"rediss://127.0.0.1:{r.port}",
            UNAVAILABLE,
            ["is it a Redis server", "TLS"],
        ),
        (lambda p, _: f"redis://127.0.0.1:{p.port}", UNAVAILABLE, ["is it a Redis server"]),
        (
            lambda *_: f"redis://:{PASSWORD}@127.0.0.1:{NOBODY}",
            UNAVAILABLE,
            [f"127.0.0.1:{NOBODY} cannot be reached", "nobody listens there", "port"],
        ),
        (
            lambda *_: f"redis://:{PASSWORD}@nonsuch.invalid",
            UNAVAILABLE,
            ["nonsuch.invalid:6379 cannot be reached", "host is unknown", "check the name"],
        ),
        (
            lambda *_: "redis://127.0.0.1:99999",
            CONFIGURATION,
            ["a port is a number from 1 to 65535, not '99999'"],
        ),
    ],
)  # fmt: skip
def test_a_server_or_url_that_cannot_be_used(
    taskyard: Program, servers: Servers, url: Urls, code: int, words: list[str]
) -> None:
    assert refused(taskyard, url(*servers), *words).code == code


@pytest.mark.spec("engine-29", "engine-30")
@pytest.mark.parametrize(
    ("scheme", "words"),
    [("postgresql", "is no PostgreSQL server"), ("redis", "is it a Redis server")],
)
def test_a_server_of_another_protocol(taskyard: Program, scheme: str, words: str) -> None:
    with speaking(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        done = refused(taskyard, f"{scheme}://ann:{PASSWORD}@127.0.0.1:{port}", words, "check host")
    assert done.code == UNAVAILABLE


@pytest.mark.spec("engine-29", "engine-30")
def test_a_server_that_is_too_old(
    taskyard: Program, postgres: PostgresServer, redis: RedisServer
) -> None:
    with Rewriting(postgres.port, b"server_version\x0016.", b"server_version\x0013.") as old:
        url = f"postgresql://postgres@127.0.0.1:{old.port}/postgres"
        for command in ("migrate", "stats"):
            done = taskyard.try_to(command, "--url", url)
            assert f"{url} is PostgreSQL 13; Taskyard needs 14 or newer" in done.complaint
            assert done.code == CONFIGURATION
        assert old.replaced
    with Rewriting(redis.port, b"redis_version:6.2.", b"redis_version:6.0.") as old:
        done = refused(
            taskyard, f"redis://127.0.0.1:{old.port}", "is Redis 6.0.", "needs Redis 6.2"
        )
        assert done.code == CONFIGURATION
        assert old.replaced


@pytest.mark.spec("engine-29", "engine-30")
def test_a_yard_of_a_newer_release(
    taskyard: Program, postgres: PostgresServer, redis: RedisServer
) -> None:
    there = f"{postgres.url}?namespace=newer"
    taskyard("migrate", "--url", there)
    sql(postgres, "UPDATE taskyard_newer.meta SET value = '99' WHERE name = 'schema'")
    assert refused(taskyard, there, "newer Taskyard (schema 99", "upgrade").code == UNAVAILABLE

    there = f"{redis.url}?namespace=newer"
    taskyard("migrate", "--url", there)
    with Redis(port=redis.port) as admin:
        admin.hset(f"{key_prefix('newer')}meta", "schema", "99")
    assert refused(taskyard, there, "newer Taskyard (schema 99", "upgrade").code == UNAVAILABLE


@pytest.mark.spec("engine-29")
def test_a_yard_that_somebody_else_has_to_migrate(
    taskyard: Program, postgres: PostgresServer
) -> None:
    taskyard("migrate", "--url", f"{postgres.url}?namespace=old")
    sql(
        postgres,
        "UPDATE taskyard_old.meta SET value = 'others' WHERE name = 'functions'",
        "UPDATE taskyard_old.meta SET value = '0.0.1' WHERE name = 'release'",
    )
    taskyard.url = f"{postgres.url}?namespace=old&migrate=0"

    for command in (["stats"], ["enqueue", "app:yard", "greet", "name=x"], ["worker", "app:yard"]):
        done = taskyard.try_to(*command)
        assert done.code == UNAVAILABLE
        assert "has the functions of an older release" in done.err.splitlines()[-1]
        assert "run: taskyard migrate" in done.err.splitlines()[-1]
    assert taskyard.try_to("migrate", "--check").code == 1
    assert taskyard("migrate").startswith("replaced the functions at ")
    assert taskyard.enqueue("greet", "name=x")


def unwritable(taskyard: Program, replica: PostgresServer | RedisServer, *command: str) -> None:
    """A worker has said before that it starts."""
    done = taskyard.try_to(*command)
    *before, last = done.err.splitlines()
    assert done.code == UNAVAILABLE
    assert last.startswith("error: ")
    assert f"127.0.0.1:{replica.port}" in last
    assert "read-only" in last
    assert "name the primary" in last
    assert "Traceback" not in "".join(before)


WRITING = (
    ("enqueue", "app:yard", "greet", "name=y"),
    ("tasks", "cancel", "first"),
    ("worker", "app:yard"),
    ("migrate",),
)


@pytest.mark.spec("engine-29")
def test_a_postgres_replica_can_be_read_and_not_written(
    taskyard: Program, postgres: PostgresServer
) -> None:
    taskyard.url = f"{postgres.url}?namespace=primary"
    taskyard.enqueue("greet", "name=x", "--id", "first")
    replica = PostgresServer(replica_of=postgres)
    replica.start()
    try:
        taskyard.url = f"{replica.url}?namespace=primary"
        assert taskyard.task("first")["state"] == "queued"
        assert "✗ primary" in " ".join(taskyard.try_to("doctor").out.split())
        for command in WRITING[:-1]:
            unwritable(taskyard, replica, *command)
        taskyard.url = f"{replica.url}?namespace=another"
        unwritable(taskyard, replica, *WRITING[-1])
    finally:
        replica.remove()


@pytest.mark.spec("engine-30")
def test_a_redis_replica_is_refused(taskyard: Program, redis: RedisServer) -> None:
    taskyard.url = f"{redis.url}?namespace=primary"
    taskyard.enqueue("greet", "name=x", "--id", "first")
    replica = RedisServer("--replicaof", "127.0.0.1", str(redis.port))
    replica.start()
    try:
        with Redis(port=redis.port) as admin:
            admin.incr("written")  # it has a copy when this has arrived
            assert admin.wait(1, 30_000) == 1
        taskyard.url = f"{replica.url}?namespace=primary"
        for command in (*WRITING[:-1], ("tasks", "show", "first")):
            unwritable(taskyard, replica, *command)
        taskyard.url = f"{replica.url}?namespace=another"
        unwritable(taskyard, replica, *WRITING[-1])
    finally:
        replica.remove()
