"""Ports for the servers of tests."""

from __future__ import annotations

import secrets
import socket

_FIRST, _LAST = 10_000, 22_000
_BUS = 10_000  # nodes of a Redis Cluster talk to each other at their port plus this


def free_port() -> int:
    """One that stays free until its server listens, also between a kill and the next start.

    Neither it nor the port of the cluster's bus is among those that the kernel gives to outgoing
    connections (from 32768 on), which a busy test run uses up by the hundred.
    """
    while True:
        # Not `random`: hypothesis seeds it, alike in every process of the run.
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if _can_listen(port) and _can_listen(port + _BUS):
            return port


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
