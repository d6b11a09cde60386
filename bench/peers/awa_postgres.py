"""awa: its queue storage, 1024 handlers at a time, a look every 10 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from awa import AsyncClient, Job
from measuring import Peer, main, mark

QUEUE = "queue"
# Its own counts take seconds with some thousands of tasks, so its tables are asked.
COMPLETED = """
SELECT (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)::bigint
     + (SELECT coalesce(sum(pruned_completed_count), 0) FROM awa.queue_terminal_rollups)::bigint
     + (SELECT count(*) FROM awa.done_entries) AS completed
"""


@dataclass
class Noop:
    n: int


async def noop(job: Job[Noop]) -> None:
    mark(job.args.n)


class Awa(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        self.client = AsyncClient(url)
        self.filled = 0

    async def set_up(self) -> None:
        await self.client.migrate()
        await self.client.install_queue_storage()

    async def enqueue(self, n: int) -> None:
        await self.client.insert(Noop(n), queue=QUEUE)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        self.filled += len(numbers)
        await self.client.enqueue_many_copy([Noop(n) for n in numbers], queue=QUEUE)

    async def is_done(self) -> bool:
        async with await self.client.transaction() as transaction:
            row = await transaction.fetch_one(COMPLETED)
        return int(row["completed"]) == self.filled

    def work(self, go: Callable[[], None]) -> None:
        asyncio.run(self._work(go))

    async def _work(self, go: Callable[[], None]) -> None:
        self.client.task(Noop, queue=QUEUE)(noop)
        go()
        await self.client.start([(QUEUE, 1_024)], poll_interval_ms=10)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main(Awa)
