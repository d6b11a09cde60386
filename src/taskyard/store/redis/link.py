"""How a store reaches its server from the event loop, and what it says to it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from redis import exceptions as redis_errors
from redis.asyncio import BlockingConnectionPool, Connection, Redis, RedisCluster, SSLConnection
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from taskyard.domain.errors import StoreError, StoreReadOnly, StoreUnavailable
from taskyard.store.redis.address import Address
from taskyard.store.redis.clock import RedisClock
from taskyard.store.redis.errors import FAILURES, is_full, translate, translate_first
from taskyard.store.redis.lines import Lines, arguments
from taskyard.store.redis.scripts import key_prefix, load

MAX_CONNECTIONS = 32
CONNECT_SECONDS = 5.0

_IN_ORDER = frozenset({"turn", "claim"})  # one may be sent before the last one is answered
_OWN_ARGUMENTS = 4  # of each script: see lua/parts/base.lua

_pack = msgspec.msgpack.Encoder().encode


class Wording:
    """Turns a verb and its arguments into the words of a command."""

    def __init__(self, namespace: str) -> None:
        self.prefix = key_prefix(namespace)
        self.channel = f"{self.prefix}hints"
        self.sender = secrets.token_hex(8)  # tells our own hints from those of others
        self.clock = RedisClock()
        self._heads: dict[str, bytes] = {}

    def key(self, name: str) -> str:
        return self.prefix + name

    def call(self, verb: str, args: tuple[object, ...], *, full: bool = False) -> list[Any]:
        """The words behind EVALSHA; behind EVAL the first one is the script's text."""
        script = load(verb)
        keys = [self.prefix + key for key in script.keys]
        about = self.clock.word(), self.channel, self.sender
        words = [script.sha, len(keys), *keys, *about, _pack(args)]
        return [*words, "full"] if full else words

    def message(self, verb: str, args: tuple[object, ...]) -> bytes:
        """The same with EVALSHA, as it goes over the wire; most of it is the same each time."""
        head = self._heads.get(verb)
        if head is None:
            script = load(verb)
            keys = [self.prefix + key for key in script.keys]
            words = ["EVALSHA", script.sha, str(len(keys)), *keys]
            count = len(words) + _OWN_ARGUMENTS
            head = b"*%d\r\n" % count + arguments([word.encode() for word in words])
            self._heads[verb] = head
        about = self.clock.word(), self.channel, self.sender
        return head + arguments([*(word.encode() for word in about), _pack(args)])


class Session:
    """A client on the loop it was made on, and the calls that are under way there."""

    def __init__(self, address: Address) -> None:
        self.client = connect(address)
        self.lines = None if address.cluster else lines_to(address)
        self.loop = asyncio.get_running_loop()
        # The driver would refuse what is one too many; here it waits its turn.
        self.turns = asyncio.Semaphore(MAX_CONNECTIONS)
        self.closed = False
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> Session:
        """A call."""
        self._calls += 1
        self._idle.clear()
        return self

    def __exit__(self, *exception: object) -> None:
        self._calls -= 1
        if self._calls == 0:
            self._idle.set()

    async def hang_up(self) -> None:
        """Connections that are not in use."""
        if self.lines is not None:
            await self.lines.hang_up()
            await self.client.connection_pool.disconnect(inuse_connections=False)

    async def close(self, seconds: float) -> None:
        """Waits so long for the calls that are under way."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        self.closed = True
        if self.lines is not None:
            await self.lines.hang_up()
        await self.client.aclose()


class Link:
    """Runs scripts and commands; what fails comes out as an error of the domain."""

    def __init__(self, address: Address, wording: Wording) -> None:
        self._address = address
        self._wording = wording
        self._session: Session | None = None
        self._closed = False
        self._answered = False

    @property
    def address(self) -> Address:
        return self._address

    def open(self) -> None:
        """It was open at first; a closed one refuses every call."""
        self._closed = False

    async def close(self) -> None:
        """Lets the calls under way end, as long as one may take."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None and session.loop is asyncio.get_running_loop():
            await session.close(self._address.timeout)

    async def write(self, verb: str, *args: object) -> Any:
        """Run a verb's script once: whoever asks decides what a lost answer means."""
        with self.call() as session:
            return await self.write_in(session, verb, *args)

    async def write_in(self, session: Session, verb: str, *args: object) -> Any:
        """The same, as a part of a call."""
        try:
            return await self._run(session, verb, args)
        except FAILURES as error:
            raise await self._failed(session, error) from error

    async def read(self, verb: str, *args: object) -> Any:
        """Run the script of a verb that only reads; a broken connection is tried twice."""
        with self.call() as session:
            try:
                with contextlib.suppress(redis_errors.ConnectionError):
                    return await self._run(session, verb, args)
                return await self._run(session, verb, args)
            except FAILURES as error:
                raise await self._failed(session, error) from error

    async def command(self, *words: str | int) -> Any:
        """Run one command that is no script."""
        with self.call() as session:
            try:
                where = await self._where(session)
                return await self._say(session, *words, **where)
            except FAILURES as error:
                raise await self._failed(session, error) from error

    def call(self) -> Session:
        """While inside, no close comes between. Connections belong to the loop that made them."""
        if self._closed:
            raise self._is_closed()
        if self._session is None or self._session.loop is not asyncio.get_running_loop():
            self._session = Session(self._address)
        return self._session

    def _is_closed(self) -> StoreUnavailable:
        return StoreUnavailable(f"the store {self._address} is closed")

    async def _where(self, session: Session) -> dict[str, Any]:
        """In a cluster: the node that holds this yard."""
        if not self._address.cluster:
            return {}
        async with asyncio.timeout(self._address.timeout):
            client = await session.client.initialize()
        return {"target_nodes": client.get_node_from_key(self._wording.key("meta"))}

    async def _run(self, session: Session, verb: str, args: tuple[object, ...]) -> Any:
        try:
            return await self._eval(session, verb, args)
        except redis_errors.ResponseError as error:
            if not (load(verb).goes_on_when_full and is_full(error)):
                raise
            return await self._eval(session, verb, args, full=True)

    async def _eval(
        self, session: Session, verb: str, args: tuple[object, ...], *, full: bool = False
    ) -> Any:
        try:
            if session.lines is None or full:
                call = self._wording.call(verb, args, full=full)
                return await self._say(session, "EVALSHA", *call)
            lines = session.lines
            say = lines.say_in_order if verb in _IN_ORDER else lines.say
            return await self._send(session, say, self._wording.message(verb, args))
        except redis_errors.NoScriptError:
            call = self._wording.call(verb, args, full=full)
            return await self._say(session, "EVAL", load(verb).text, *call[1:])

    async def _say(self, session: Session, *words: Any, **options: Any) -> Any:
        # Not the driver's own time limit: before Python 3.12 it swallows cancellations.
        async with asyncio.timeout(self._address.timeout), session.turns:
            if session.closed:  # the driver would connect again
                raise self._is_closed()
            answer = await session.client.execute_command(*words, **options)
        self._answered = True
        return answer

    async def _send(
        self, session: Session, say: Callable[[bytes], Awaitable[Any]], message: bytes
    ) -> Any:
        async with asyncio.timeout(self._address.timeout), session.turns:
            if session.closed:
                raise self._is_closed()
            answer = await say(message)
        self._answered = True
        return answer

    async def _failed(self, session: Session, error: Exception) -> StoreError:
        known = translate if self._answered else translate_first
        failed = known(error, self._address)
        if isinstance(failed, StoreReadOnly) and not self._address.cluster:
            # A server that was made a replica keeps its connections; by a new one the address may
            # lead to the primary.
            with contextlib.suppress(*FAILURES):
                await session.hang_up()
        return failed


def connect(address: Address) -> Any:
    """A client for the loop that uses it first."""
    if not address.cluster:
        return connect_to(address, *address.hosts[0])
    nodes = [ClusterNode(host, port) for host, port in address.hosts]
    return RedisCluster(startup_nodes=nodes, ssl=address.tls, **_async_options(address))


def connect_to(address: Address, host: str, port: int, **options: Any) -> Any:
    """A client of this one server."""
    pool = BlockingConnectionPool(
        max_connections=MAX_CONNECTIONS,
        timeout=address.timeout,
        connection_class=_kind(address),
        **_place(address, host, port),
        **options,
    )
    return Redis.from_pool(pool)


def lines_to(address: Address) -> Lines:
    return Lines(_kind(address), _place(address, *address.hosts[0]))


def line_to(address: Address, host: str, port: int) -> Any:
    """A connection to this one server."""
    return _kind(address)(**_place(address, host, port))


def _kind(address: Address) -> type[Connection]:
    return SSLConnection if address.tls else Connection


def _place(address: Address, host: str, port: int) -> dict[str, Any]:
    return {"host": host, "port": port, "db": address.database, **_async_options(address)}


def _async_options(address: Address) -> dict[str, Any]:
    """It repeats nothing by itself: whoever asks decides what a lost answer means."""
    return {**client_options(address), "retry": Retry(NoBackoff(), 0)}


def client_options(address: Address) -> dict[str, Any]:
    return {
        "username": address.user,
        "password": address.password.value if address.password else None,
        "socket_timeout": None,
        "socket_connect_timeout": min(CONNECT_SECONDS, address.timeout),
        "socket_keepalive": True,
        "protocol": 2,
    }
