"""dramatiq on Redis: four threads that fetch 256 messages ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from measuring import Peer, main, mark


class Dramatiq(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        self.broker = RedisBroker(url=url)
        self.noop = dramatiq.actor(mark, actor_name="noop", broker=self.broker)

    async def enqueue(self, n: int) -> None:
        self.noop.send(n)

    async def is_done(self) -> bool:
        return not self.broker.do_qsize(self.noop.queue_name)

    def work(self, go: Callable[[], None]) -> None:
        worker = dramatiq.Worker(self.broker, worker_threads=4)
        worker.queue_prefetch = 256
        go()
        worker.start()
        threading.Event().wait()


if __name__ == "__main__":
    main(Dramatiq)
