"""A real Redis Cluster of three nodes, for tests."""

from __future__ import annotations

import time
from typing import Any

from redis import Redis

from tests.servers.redis import RedisServer

_SLOTS = 16384
_PATIENCE = 60.0


class RedisCluster:
    def __init__(self, size: int = 3) -> None:
        self.nodes = [RedisServer("--cluster-enabled", "yes") for _ in range(size)]

    @property
    def url(self) -> str:
        """Names two of them: a client finds the others."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:2])

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        share = -(-_SLOTS // len(self.nodes))
        for at, node in enumerate(self.nodes):
            with Redis(port=node.port) as client:
                run: Any = client.execute_command
                run("CLUSTER", "ADDSLOTS", *range(at * share, min((at + 1) * share, _SLOTS)))
                run("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
                run("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        until = time.monotonic() + _PATIENCE
        while not all(self._is_ready(node) for node in self.nodes):
            if time.monotonic() > until:
                raise RuntimeError("the nodes of the cluster do not find each other")
            time.sleep(0.05)

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()

    def _is_ready(self, node: RedisServer) -> bool:
        with Redis(port=node.port) as client:
            run: Any = client.execute_command
            info = run("CLUSTER INFO")
        return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == len(self.nodes)
