"""One blocking connection, for whoever has no event loop: the heartbeat's thread."""

from __future__ import annotations

import threading
from typing import Any

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
    def __init__(self, address: Address, wording: Wording) -> None:
        self._address = address
        self._wording = wording
        self._client: Any = None
        self._seconds = 0.0
        self._gate = threading.Lock()
        self._closed = False

    def write(self, verb: str, *args: object, timeout: float) -> Any:
        """Run a verb's script, waiting so many seconds at most."""
        if not self._gate.acquire(timeout=timeout):
            raise StoreUnavailable(f"{self._address} did not answer within {timeout:g} s")
        try:
            return self._run(verb, args, timeout)
        except FAILURES as error:
            self._hang_up()
            raise translate(error, self._address) from error
        finally:
            if self._closed:
                self._hang_up()
            self._gate.release()

    def open(self) -> None:
        self._closed = False

    def close(self) -> None:
        """Waits for nobody: a call that is under way hangs up itself."""
        self._closed = True
        if self._gate.acquire(blocking=False):
            self._hang_up()
            self._gate.release()

    def _run(self, verb: str, args: tuple[object, ...], timeout: float) -> Any:
        if self._client is None or self._seconds != timeout:
            self._hang_up()
            self._client, self._seconds = _connect(self._address, timeout), timeout
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
