"""procrastinate: ten jobs at a time, successful ones deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from measuring import Peer, main, mark
from procrastinate import App, PsycopgConnector


async def noop(n: int) -> None:
    mark(n)


class Procrastinate(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        self.app = App(connector=PsycopgConnector(conninfo=url))
        self.noop = self.app.task(name="noop")(noop)

    async def set_up(self) -> None:
        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()

    async def enqueue(self, n: int) -> None:
        await self.noop.defer_async(n=n)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await self.noop.batch_defer_async(*({"n": n} for n in numbers))

    async def is_done(self) -> bool:
        ask = "SELECT NOT EXISTS (SELECT FROM procrastinate_jobs) AS done"
        return bool((await self.app.connector.execute_query_one_async(ask))["done"])

    def work(self, go: Callable[[], None]) -> None:
        asyncio.run(self._work(go))

    async def _work(self, go: Callable[[], None]) -> None:
        async with self.app.open_async():
            go()
            await self.app.run_worker_async(concurrency=10, delete_jobs="successful")


if __name__ == "__main__":
    main(Procrastinate)
