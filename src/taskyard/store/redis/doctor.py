"""Looks at what could make the server unsafe or slow."""

from __future__ import annotations

import time

from taskyard.domain.clock import Instant, seconds
from taskyard.store.port import Check
from taskyard.store.redis.server import OLDEST, Server

_SKEW_SECONDS = 30.0


def diagnose(
    server: Server, shown: object, schema: tuple[int, int], now: Instant, *, hints: bool
) -> list[Check]:
    version, newest = schema
    return [
        Check("store", True, f"{shown} answers"),
        _version(server),
        Check("schema", version == newest, f"version {version}, newest is {newest}"),
        _eviction(server),
        Check("durability", *server.durability),
        Check("replicas", True, f"{server.replicas}; a failover may lose the last writes"),
        _hints(hints),
        _clock(now),
    ]


def _version(server: Server) -> Check:
    wanted = ".".join(map(str, OLDEST))
    return Check(server.name, True, f"{server.version or 'unknown'} (at least {wanted} is needed)")


def _eviction(server: Server) -> Check:
    policy = server.policy or "unknown"
    ok = server.keeps_everything is not False
    text = "a full memory refuses writes" if ok else "a full memory throws tasks away"
    if server.is_full:
        text += "; it is full: new tasks are refused, what waits runs and ends"
    return Check("memory", ok and not server.is_full, f"maxmemory-policy is {policy}: {text}")


def _hints(heard: bool) -> Check:
    if heard:
        return Check("hints", True, "publish and subscribe tell workers at once")
    return Check(
        "hints",
        False,
        "this user may not publish: workers find tasks by polling, seconds late; "
        "allow the channel (ACL SETUSER … &taskyard:v1:*)",
    )


def _clock(now: Instant) -> Check:
    skew = seconds(now) - time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds(now)))
    ok = abs(skew) < _SKEW_SECONDS
    return Check("clock", ok, f"it is {shown} there, {abs(skew):.1f} s from the clock here")
