"""A real Redis Cluster, for tests: three masters, and a replica where one is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from redis import Redis
from redis.crc import key_slot

from taskyard.store.redis.scripts import key_prefix
from tests.servers.redis import RedisServer

_SLOTS = 16384
_PATIENCE = 60.0
_OPTIONS = (
    *("--cluster-enabled", "yes"),
    *("--appendfsync", "always"),  # with everysec, what is killed may have kept a write back
    *("--cluster-node-timeout", "1000"),  # milliseconds until a silent node is taken for dead
    *("--cluster-replica-validity-factor", "0"),  # a replica takes over however late it is
    *("--repl-diskless-sync-delay", "0"),
)


class RedisCluster:
    def __init__(self, size: int = 3) -> None:
        self.nodes = [RedisServer(*_OPTIONS) for _ in range(size)]

    @property
    def url(self) -> str:
        """Names two of them: a client finds the others."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:2])

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        for at, node in enumerate(self.nodes):
            share = [slot for slot in range(_SLOTS) if self._index(slot) == at]
            say(node, "CLUSTER", "ADDSLOTS", *share)
            say(node, "CLUSTER", "SET-CONFIG-EPOCH", at + 1)
            self._introduce(node)
        self.await_ready()

    def master_of(self, namespace: str) -> RedisServer:
        """The node that holds this yard at first."""
        return self.nodes[self._index(key_slot(key_prefix(namespace).encode()))]

    def add_replica(self, master: RedisServer) -> RedisServer:
        """A node that takes over when this one dies, and has all it has by now."""
        replica = RedisServer(*_OPTIONS)
        self.nodes.append(replica)
        replica.start()
        self._introduce(replica)
        self.await_ready()
        say(replica, "CLUSTER", "REPLICATE", say(master, "CLUSTER", "MYID"))
        self._await(lambda: is_in_sync(replica), "a replica in sync")
        return replica

    def await_ready(self) -> None:
        """All nodes know each other and hold all slots."""
        self._await(lambda: all(self._is_ready(node) for node in self.nodes), "nodes that meet")

    def await_takeover(self, replica: RedisServer) -> None:
        self._await(lambda: role(replica) == "master", "a replica that takes over")

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()

    def _index(self, slot: int) -> int:
        """Of the first three nodes, the one with this slot."""
        return slot * 3 // _SLOTS

    def _introduce(self, node: RedisServer) -> None:
        say(node, "CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)

    def _is_ready(self, node: RedisServer) -> bool:
        info = say(node, "CLUSTER INFO")
        return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == len(self.nodes)

    def _await(self, true: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _PATIENCE
        while not true():
            if time.monotonic() > until:
                raise RuntimeError(f"waited {_PATIENCE:g} s for {what}")
            time.sleep(0.02)


def say(node: RedisServer, *words: Any) -> Any:
    """One command, to this node and no other."""
    with Redis(port=node.port) as client:
        run: Any = client.execute_command
        return run(*words)


def role(node: RedisServer) -> str:
    found: str = say(node, "INFO", "replication")["role"]
    return found


def is_in_sync(replica: RedisServer) -> bool:
    return bool(say(replica, "INFO", "replication").get("master_link_status") == "up")
