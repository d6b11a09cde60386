"""chancy: the asyncio executor, a thousand jobs at a time, eager polling, no logging."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from chancy import Chancy, Job, Queue, Worker
from measuring import Peer, main, mark


async def noop(*, n: int) -> None:
    mark(n)


class ChancyPeer(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        self.chancy = Chancy(url, log=logging.getLogger("quiet"))
        self.job = Job.from_func(noop)

    async def set_up(self) -> None:
        await self.chancy.pool.open()
        await self.chancy.migrate()
        await self.chancy.declare(
            Queue("default", concurrency=1_000, executor=Chancy.Executor.Async, eager_polling=True)
        )

    async def enqueue(self, n: int) -> None:
        await self.chancy.push(self.job.with_kwargs(n=n))

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        async for _ in self.chancy.push_many([self.job.with_kwargs(n=n) for n in numbers]):
            pass

    async def is_done(self) -> bool:
        ask = "SELECT NOT EXISTS (SELECT FROM chancy_jobs WHERE state <> 'succeeded')"
        async with self.chancy.pool.connection() as connection:
            return bool((await (await connection.execute(ask)).fetchone())[0])

    def work(self, go: Callable[[], None]) -> None:
        asyncio.run(self._work(go))

    async def _work(self, go: Callable[[], None]) -> None:
        await self.chancy.pool.open()
        go()
        async with Worker(self.chancy) as worker:
            await worker.wait_for_shutdown()


if __name__ == "__main__":
    main(ChancyPeer)
