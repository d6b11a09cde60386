"""streaq: 16 tasks at a time, no results kept. It needs Redis 7, for its functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from measuring import Peer, main, mark
from streaq import Worker


async def noop(n: int) -> None:
    mark(n)


class Streaq(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        self.worker = Worker(redis_url=url, concurrency=16)
        self.noop = self.worker.task(ttl=0, name="noop")(noop)

    async def open(self) -> None:
        await self.worker.__aenter__()

    async def enqueue(self, n: int) -> None:
        await self.noop.enqueue(n)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await self.worker.enqueue_many([self.noop.enqueue(n) for n in numbers])

    async def is_done(self) -> bool:
        return not await self.worker.queue_size()

    def work(self, go: Callable[[], None]) -> None:
        go()
        self.worker.run_sync()


if __name__ == "__main__":
    main(Streaq)
