"""pgqueuer: batches of 500, a pool of 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import asyncpg
import uvloop
from measuring import Peer, main, mark
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BATCH = 500


async def noop(job: Job) -> None:
    mark(int(job.payload))


class PgQueuerPeer(Peer):
    async def set_up(self) -> None:
        pool = await asyncpg.create_pool(self.url, min_size=5, max_size=5)
        self.queries = Queries(AsyncpgPoolDriver(pool))
        await self.queries.install()

    async def enqueue(self, n: int) -> None:
        await self.queries.enqueue("noop", b"%d" % n)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        names, payloads = ["noop"] * len(numbers), [b"%d" % n for n in numbers]
        await self.queries.enqueue(names, payloads, [0] * len(numbers))

    async def is_done(self) -> bool:
        return not await self.queries.queue_size()

    def work(self, go: Callable[[], None]) -> None:
        # As its own command does where uvloop is installed.
        uvloop.run(self._work(go))

    async def _work(self, go: Callable[[], None]) -> None:
        pool = await asyncpg.create_pool(self.url, min_size=5, max_size=5)
        app = PgQueuer.from_asyncpg_pool(pool)
        app.entrypoint("noop")(noop)
        go()
        await app.run(batch_size=BATCH)


if __name__ == "__main__":
    main(PgQueuerPeer)
