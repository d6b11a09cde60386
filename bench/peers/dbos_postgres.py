"""DBOS: 500 workflows at a time, a look every 10 ms; many in one call are one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import sqlalchemy
from dbos import DBOS, DBOSClient
from measuring import Peer, main, mark

NOOP = {"workflow_name": "noop", "queue_name": "queue"}


class Dbos(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        DBOS(
            config={
                "name": "peer",
                "system_database_url": url,
                "log_level": "ERROR",
                "application_version": "1",
            }
        )
        DBOS.workflow(name="noop")(mark)

    async def set_up(self) -> None:
        DBOS.launch()  # makes the schema
        DBOS.destroy()

    async def open(self) -> None:
        self.client = DBOSClient(system_database_url=self.url)
        self.engine = sqlalchemy.create_engine(self.url.replace("://", "+psycopg://"))
        await self.client.register_queue_async(
            NOOP["queue_name"], worker_concurrency=500, polling_interval_sec=0.01
        )

    async def enqueue(self, n: int) -> None:
        await self.client.enqueue_async(NOOP, n)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        with self.engine.begin() as connection:
            for n in numbers:
                self.client.enqueue_in_transaction(connection, NOOP, n)

    async def is_done(self) -> bool:
        ask = "SELECT NOT EXISTS (SELECT FROM dbos.workflow_status WHERE status <> 'SUCCESS')"
        with self.engine.connect() as connection:
            return bool(connection.execute(sqlalchemy.text(ask)).scalar())

    def work(self, go: Callable[[], None]) -> None:
        go()
        DBOS.launch()
        threading.Event().wait()


if __name__ == "__main__":
    main(Dbos)
