"""One blocking connection, for whoever has no event loop: the heartbeat's thread."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

import msgspec
from redis import Redis, RedisCluster
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry

from taskyard.domain.errors import StoreUnavailable
from taskyard.store.redis.address import Address
from taskyard.store.redis.errors import FAILURES, is_full, translate
from taskyard.store.redis.link import CONNECT_SECONDS, Wording, client_options
from taskyard.store.redis.scripts import load


class BlockingLink:
    """Opened by its first use, and by the first one after it was closed and opened again."""

    def __init__(self, address: Address, wording: Wording) -> None:
        self._address = address
        self._wording = wording
        self._changing = threading.Lock()
        self._line: _Line | None = None
        self._closed = False

    def write(self, verb: str, *args: object, timeout: float) -> Any:
        """Run a verb's script, waiting so many seconds at most."""
        return self._open_line().write(verb, args, timeout)

    def open(self) -> None:
        with self._changing:
            self._closed = False

    def close(self) -> None:
        """Waits for nobody: a call that is under way ends by itself."""
        with self._changing:
            self._closed = True
            line, self._line = self._line, None
        if line is not None:
            line.close()

    def _open_line(self) -> _Line:
        with self._changing:
            if self._closed:
                raise StoreUnavailable(f"the store {self._address} is closed")
            if self._line is None:
                self._line = _Line(self._address, self._wording)
            return self._line


class _Call(msgspec.Struct, frozen=True, eq=False):
    verb: str
    args: tuple[object, ...]
    seconds: float
    answer: Future[Any]


class _Line:
    """One connection in a thread that can be left behind.

    The driver limits each wait for the network, not their sum: a name is looked up, connections
    are made, the nodes of a cluster are asked in turn. So it works in a thread of its own, and
    whoever asked goes away in time. Until a call that was left has ended, others fail soon: who
    asks has other things to watch.
    """

    def __init__(self, address: Address, wording: Wording) -> None:
        self._address = address
        self._wording = wording
        self._client: Any = None
        self._seconds = 0.0
        self._gate = threading.Lock()
        self._left: _Call | None = None  # nobody waits for its answer any more
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        threading.Thread(target=self._main, name="taskyard-redis-beat", daemon=True).start()

    def write(self, verb: str, args: tuple[object, ...], seconds: float) -> Any:
        until = time.monotonic() + seconds
        patience = seconds / 10 if self._is_left() else seconds
        if not self._gate.acquire(timeout=patience):
            raise translate(TimeoutError(), self._address)
        call = _Call(verb, args, seconds, Future())
        self._calls.put(call)
        try:
            return call.answer.result(max(0.0, until - time.monotonic()))
        except FAILURES as error:
            self._left = call
            raise translate(error, self._address) from error

    def close(self) -> None:
        self._calls.put(None)

    def _is_left(self) -> bool:
        return self._left is not None and not self._left.answer.done()

    def _main(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                answer = self._run(call)
            except BaseException as error:
                self._hang_up()
                call.answer.set_exception(error)
            else:
                call.answer.set_result(answer)
            self._gate.release()
        self._hang_up()

    def _run(self, call: _Call) -> Any:
        verb, args = call.verb, call.args
        if self._client is None or self._seconds != call.seconds:
            self._hang_up()
            self._client, self._seconds = _connect(self._address, call.seconds), call.seconds
        try:
            return self._eval(verb, self._wording.call(verb, args))
        except redis_errors.ResponseError as error:
            if not (load(verb).goes_on_when_full and is_full(error)):
                raise
            return self._eval(verb, self._wording.call(verb, args, full=True))

    def _eval(self, verb: str, call: list[Any]) -> Any:
        try:
            return self._client.execute_command("EVALSHA", *call)
        except redis_errors.NoScriptError:
            return self._client.execute_command("EVAL", load(verb).text, *call[1:])

    def _hang_up(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(*FAILURES):
                client.close()


def _connect(address: Address, seconds: float) -> Any:
    options = {
        **client_options(address),
        "socket_timeout": seconds,
        "socket_connect_timeout": min(seconds, CONNECT_SECONDS),
        "retry": Retry(NoBackoff(), 0),
        "ssl": address.tls,
    }
    if address.cluster:
        make: Any = ClusterNode  # has no types
        nodes = [make(host, port) for host, port in address.hosts]
        return RedisCluster(startup_nodes=nodes, **options)
    [(host, port), *_] = address.hosts
    return Redis(host=host, port=port, db=address.database, **options)
