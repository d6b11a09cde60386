"""celery on Redis: the solo pool, late acknowledgement, 64 messages ahead, no results."""

from __future__ import annotations

from collections.abc import Callable

from celery import Celery
from measuring import Peer, main, mark
from redis import Redis


class CeleryPeer(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        self.app = Celery(broker=url)
        self.app.conf.update(
            task_acks_late=True,
            task_ignore_result=True,
            worker_prefetch_multiplier=64,
            worker_hijack_root_logger=False,
            broker_connection_retry_on_startup=True,
        )
        self.noop = self.app.task(mark, name="noop")

    async def open(self) -> None:
        self.redis = Redis.from_url(self.url)

    async def enqueue(self, n: int) -> None:
        self.noop.delay(n)

    async def is_done(self) -> bool:
        return not self.redis.llen("celery") and not self.redis.hlen("unacked")

    def work(self, go: Callable[[], None]) -> None:
        worker = self.app.Worker(
            pool="solo",
            loglevel="WARNING",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        go()
        worker.start()


if __name__ == "__main__":
    main(CeleryPeer)
