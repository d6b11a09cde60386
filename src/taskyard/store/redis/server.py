"""What kind of server this is: whether it can be used, and what survives its crash."""

from __future__ import annotations

from typing import Any

import msgspec
from redis import exceptions as redis_errors

from taskyard.domain.errors import ConfigurationError, StoreError
from taskyard.store.redis.address import Address
from taskyard.store.redis.errors import lone_node
from taskyard.store.redis.link import Link

OLDEST = (6, 2)

_SETTINGS = (
    *("appendonly", "appendfsync", "no-appendfsync-on-rewrite"),
    *("save", "maxmemory-policy"),
)


class Server(msgspec.Struct, frozen=True):
    """What the server says of itself; None where it does not tell."""

    version: str | None = None
    name: str = "Redis"
    policy: str | None = None
    aof: bool | None = None
    fsync: str | None = None
    fsync_paused: bool = False  # while a child process of the server writes files
    snapshots: bool | None = None
    replicas: int = 0
    memory: tuple[int, int] | None = None  # bytes used, and the most allowed
    clustered: bool = False
    place: str = "the server"  # for messages

    @property
    def keeps_everything(self) -> bool | None:
        """Whether it would rather refuse a write than throw tasks away."""
        return None if self.policy is None else self.policy == "noeviction"

    @property
    def is_full(self) -> bool:
        return self.memory is not None and 0 < self.memory[1] <= self.memory[0]

    @property
    def durability(self) -> tuple[bool, str]:
        """Whether something survives a crash of the server, and what, in one sentence."""
        if self.aof is None:
            return True, "persistence unknown: the server answers neither INFO nor CONFIG GET"
        if self.aof and self.fsync_paused and self.fsync != "no":
            text = "while the server rewrites its log or takes a snapshot, a crash of the machine"
            lost = "may lose what the system had not written yet, often the last 30 seconds"
            how = f"appendfsync {self.fsync}, but no-appendfsync-on-rewrite is yes"
            return True, f"{how}: {text} {lost}"
        if self.aof and self.fsync == "always":
            return True, "appendfsync always: what was saved survives a crash of the server"
        if self.aof and self.fsync == "no":
            text = "may lose what the system had not written yet, often the last 30 seconds"
            return True, f"appendfsync no: a crash of the machine {text}"
        if self.aof:
            how = self.fsync or "unknown (the server refuses CONFIG GET), everysec by default"
            return True, f"appendfsync {how}: a crash of the server may lose the last second"
        if self.snapshots:
            return False, "snapshots only: a crash loses everything since the last one"
        if self.snapshots is None:
            text = "whether snapshots are taken is unknown (the server refuses CONFIG GET)"
            return False, f"no append-only file, and {text}: a crash may lose every task"
        return False, "no persistence: a restart of the server loses every task"


async def look(link: Link) -> Server:
    info = await _info(link)
    settings = await _settings(link)
    aof = settings.get("appendonly")
    seen_aof = info.get("aof_enabled")
    return Server(
        version=_text(info.get("valkey_version") or info.get("redis_version")),
        name="Valkey" if "valkey_version" in info else "Redis",
        policy=settings.get("maxmemory-policy") or _text(info.get("maxmemory_policy")),
        aof=aof == "yes" if aof else (None if seen_aof is None else bool(seen_aof)),
        fsync=settings.get("appendfsync"),
        fsync_paused=settings.get("no-appendfsync-on-rewrite") == "yes",
        snapshots=bool(settings["save"]) if "save" in settings else None,
        replicas=int(info.get("connected_slaves", 0)),
        memory=_memory(info),
        clustered=bool(info.get("cluster_enabled")),
        place=str(link.address),
    )


def refuse_unfit(server: Server, *, force: bool) -> None:
    if server.version is not None and _numbers(server.version) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise ConfigurationError(
            f"{server.place} is Redis {server.version}; Taskyard needs Redis {wanted} or Valkey"
        )
    if server.keeps_everything is False and not force:
        raise ConfigurationError(
            f"{server.place} has maxmemory-policy {server.policy}: when memory is short it would "
            "throw tasks away; set it to noeviction, or add ?force=1 to the URL if you accept that"
        )


def refuse_lone_node(server: Server, address: Address) -> None:
    """It would send most yards to other nodes."""
    if server.clustered and not address.cluster:
        raise ConfigurationError(lone_node(address))


async def hears_hints(link: Link, channel: str) -> bool:
    """Whether this user may publish; those who listen look once in vain."""
    try:
        await link.command("PUBLISH", channel, "")
    except StoreError as error:
        _only_if_refused(error)
        return False
    return True


async def _info(link: Link) -> dict[str, Any]:
    try:
        found: dict[str, Any] = await link.command("INFO")
    except StoreError as error:
        _only_if_refused(error)
        return {}
    return found


async def _settings(link: Link) -> dict[str, str]:
    settings: dict[str, str] = {}
    for name in _SETTINGS:
        try:
            answer = await link.command("CONFIG GET", name)
        except StoreError as error:
            _only_if_refused(error)
            return settings
        settings.update({_text(k) or "": _text(v) or "" for k, v in answer.items()})
    return settings


def _memory(info: dict[str, Any]) -> tuple[int, int] | None:
    if "used_memory" not in info or "maxmemory" not in info:
        return None
    return int(info["used_memory"]), int(info["maxmemory"])


def _only_if_refused(error: StoreError) -> None:
    """A managed server may refuse to tell, in whatever words; everything else is a real error."""
    cause = error.__cause__
    refused = isinstance(cause, redis_errors.ResponseError)
    if not refused or isinstance(cause, redis_errors.ClusterError):
        raise error


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
