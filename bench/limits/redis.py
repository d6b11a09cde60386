"""Redis: packed bodies in one hash, what is ready in a sorted set, one script for a batch."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from redis.asyncio import Redis

from bench.limits.entries_of_redis import Entries, sample_entries
from bench.limits.loop import (
    GROUPS,
    PROCESSING,
    Answer,
    Body,
    End,
    Turn,
    enqueue,
    idle,
    main,
    process,
)

FILL = """
for no = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  redis.call('HSET', 'tasks', no, cmsgpack.pack({ 'noop', '[' .. no .. ']' }))
  redis.call('ZADD', 'ready', no, no)
end
"""
CHUNK = 10_000

# ARGV[1] ends, packed: numbers, attempts, results   ARGV[2] how many to claim   ARGV[3] the time
# Answers how many ends were refused, the numbers claimed and their bodies.
TURN = """
local numbers, attempts, results = unpack(cmsgpack.unpack(ARGV[1]))
local accepted, gone, done = 0, {}, {}
if #numbers > 0 then
  local running = redis.call('HMGET', 'running', unpack(numbers))
  for at, no in ipairs(numbers) do
    if running[at] == attempts[at] then
      accepted = accepted + 1
      gone[accepted] = no
      done[2 * accepted - 1] = no
      done[2 * accepted] = 'completed ' .. attempts[at] .. ' ' .. ARGV[3] .. ' ' .. results[at]
    end
  end
  if accepted > 0 then
    redis.call('HSET', 'done', unpack(done))
    redis.call('HDEL', 'running', unpack(gone))
  end
end
local refused = #numbers - accepted
local popped = redis.call('ZPOPMIN', 'ready', ARGV[2])
if #popped == 0 then return { refused, {}, {} } end
local claimed = {}
for at = 1, #popped, 2 do
  claimed[(at + 1) / 2] = popped[at]
  popped[at + 1] = '1'
end
redis.call('HSET', 'running', unpack(popped))
return { refused, claimed, redis.call('HMGET', 'tasks', unpack(claimed)) }
"""

# ARGV[n] names and values of KEYS[n], packed. Lua's stack takes no more than 8000.
SAVE = """
for at, command in ipairs({ %s }) do
  redis.call(command, KEYS[at], unpack(cmsgpack.unpack(ARGV[at])))
end
"""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[str, str]).decode


async def measure(what: str, url: str, count: int) -> Answer:
    async with Redis.from_url(url) as client:
        if what in PROCESSING:
            return await measure_processing(client, count, what)
        if what == "idle":
            return await measure_idle(url, client, count)
        entries = await sample_entries(url, client)
        return await enqueue(await saving(client, entries), count, GROUPS[what])


async def measure_processing(client: Any, count: int, what: str) -> Answer:
    for first in range(1, count + 1, CHUNK):
        await client.eval(FILL, 0, first, min(count, first + CHUNK - 1))
    return await process(await turns(client), count, what)


async def measure_idle(url: str, client: Any, count: int) -> Answer:
    """The worker waits in a blocking pop on a connection of its own."""
    sha = await client.script_load(FILL + "redis.call('RPUSH', 'news', 1)")
    async with Redis.from_url(url) as waiting:
        return await idle(
            lambda no: client.evalsha(sha, 0, no, no),
            await turns(client),
            lambda: waiting.blpop(["news"]),
            count,
        )


async def turns(client: Any) -> Turn:
    sha = await client.script_load(TURN)

    async def turn(ends: Sequence[End], room: int) -> list[Body]:
        columns = (
            [str(no) for no, _, _ in ends],
            [str(attempt) for _, attempt, _ in ends],
            [result for _, _, result in ends],
        )
        refused, nos, bodies = await client.evalsha(sha, 0, _pack(columns), room, time.time_ns())
        assert refused == 0, "an attempt was refused"
        return [(int(no), 1, _unpack(body)[1]) for no, body in zip(nos, bodies, strict=True)]

    return turn


async def saving(client: Any, entries: Sequence[Entries]) -> Callable[[int, int], Awaitable[None]]:
    """What saves so many tasks from a number on with one call of a script."""
    sha = await client.script_load(SAVE % ", ".join(f"'{one.command}'" for one in entries))
    keys = [one.key for one in entries]

    async def write(first: int, count: int) -> None:
        numbers = range(first, first + count)
        packed = (_pack([part for n in numbers for part in one.nth(n)]) for one in entries)
        await client.evalsha(sha, len(keys), *keys, *packed)

    return write


if __name__ == "__main__":
    main(measure)
