"""arq: 100 jobs at a time, a look every 10 ms, no results kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.constants import default_queue_name
from arq.worker import Worker
from measuring import Peer, main, mark


async def noop(_: dict[str, Any], n: int) -> None:
    mark(n)


class Arq(Peer):
    async def open(self) -> None:
        self.pool = await create_pool(RedisSettings.from_dsn(self.url))

    async def enqueue(self, n: int) -> None:
        await self.pool.enqueue_job("noop", n)

    async def is_done(self) -> bool:
        return not await self.pool.zcard(default_queue_name)

    def work(self, go: Callable[[], None]) -> None:
        asyncio.run(self._work(go))

    async def _work(self, go: Callable[[], None]) -> None:
        await self.open()
        worker = Worker(
            [noop],
            redis_pool=self.pool,
            max_jobs=100,
            poll_delay=0.01,
            keep_result=0,
            log_results=False,
        )
        go()
        await worker.async_run()


if __name__ == "__main__":
    main(Arq)
