"""taskiq on Redis: a thousand tasks at a time, a thousand ahead, parameters not parsed.

With the option `streams` a task is acknowledged after it has run; with `list` it is removed before.
"""

from __future__ import annotations

from collections.abc import Callable

import uvloop
from measuring import Peer, main, mark
from redis.asyncio import Redis
from taskiq.api import run_receiver_task
from taskiq_redis import ListQueueBroker, RedisStreamBroker

BROKERS = {"list": ListQueueBroker, "streams": RedisStreamBroker}


async def noop(n: int) -> None:
    mark(n)


class Taskiq(Peer):
    def __init__(self, url: str, kind: str) -> None:
        super().__init__(url, kind)
        self.kind = kind
        self.broker = BROKERS[kind](url)
        self.noop = self.broker.register_task(noop, task_name="noop")

    async def open(self) -> None:
        await self.broker.startup()
        self.redis = Redis.from_url(self.url)

    async def enqueue(self, n: int) -> None:
        await self.noop.kiq(n)

    async def is_done(self) -> bool:
        if self.kind == "list":
            return not await self.redis.llen(self.broker.queue_name)
        (group,) = await self.redis.xinfo_groups(self.broker.queue_name)
        return not group["pending"]

    def work(self, go: Callable[[], None]) -> None:
        # As its own command does where uvloop is installed.
        uvloop.run(self._work(go))

    async def _work(self, go: Callable[[], None]) -> None:
        self.broker.is_worker_process = True
        await self.broker.startup()
        go()
        await run_receiver_task(
            self.broker, validate_params=False, max_async_tasks=1_000, max_prefetch=1_000
        )


if __name__ == "__main__":
    main(Taskiq)
