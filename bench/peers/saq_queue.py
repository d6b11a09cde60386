"""saq on Redis or PostgreSQL, by the URL: 200 tasks at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from measuring import Peer, main, mark
from saq import Queue, Worker


async def noop(_: dict[str, Any], *, n: int) -> None:
    mark(n)


class Saq(Peer):
    async def open(self) -> None:
        self.queue = Queue.from_url(self.url)
        await self.queue.connect()

    async def enqueue(self, n: int) -> None:
        await self.queue.enqueue("noop", n=n)

    async def is_done(self) -> bool:
        return not await self.queue.count("incomplete")

    def work(self, go: Callable[[], None]) -> None:
        asyncio.run(self._work(go))

    async def _work(self, go: Callable[[], None]) -> None:
        await self.open()
        worker = Worker(self.queue, functions=[("noop", noop)], concurrency=200)
        go()
        await worker.start()


if __name__ == "__main__":
    main(Saq)
