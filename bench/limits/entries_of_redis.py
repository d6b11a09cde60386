"""What an enqueue of Taskyard leaves in Redis, found out by doing it: where, and how long it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from bench.limits.sample import SAMPLES, sampling

Stored = Mapping[bytes, tuple[str, Mapping[bytes, bytes]]]  # key -> type, name -> value


class Entries(msgspec.Struct, frozen=True):
    """A hash or a sorted set that gets one entry with each task."""

    key: bytes
    command: Literal["HSET", "ZADD"]
    name_length: int
    value: str

    def nth(self, n: int) -> tuple[str, str]:
        """As long as the real ones, and each after the one before in byte order."""
        name = f"{n:0{self.name_length}d}"
        return (name, self.value) if self.command == "HSET" else (self.value, name)


async def sample_entries(url: str, client: Any) -> list[Entries]:
    before: Stored = {}
    async with sampling(url) as enqueue_three:
        before = await read(client)
        await enqueue_three()
        after = await read(client)
    if len(after) - len(before) >= SAMPLES:
        raise ValueError("tasks have keys of their own now: write those too")
    found = []
    for key, (kind, entries) in after.items():
        added = [name for name in entries if key not in before or name not in before[key][1]]
        if len(added) == SAMPLES:
            name = added[-1]
            value = "0" if kind == "zset" else "v" * len(entries[name])
            command: Literal["HSET", "ZADD"] = "ZADD" if kind == "zset" else "HSET"
            found.append(Entries(key, command, len(name), value))
    return found


async def read(client: Any) -> Stored:
    stored: dict[bytes, tuple[str, dict[bytes, bytes]]] = {}
    async for key in client.scan_iter():
        match kind := (await client.type(key)).decode():
            case "hash":
                stored[key] = kind, await client.hgetall(key)
            case "zset":
                stored[key] = kind, dict.fromkeys(await client.zrange(key, 0, -1), b"")
            case _:
                pass  # counters and lists of hints: none has an entry for each task
    return stored
