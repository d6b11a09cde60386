"""rq: a worker that does not fork, no results kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from measuring import Peer, main, mark
from redis import Redis
from rq import Queue, SimpleWorker


class Rq(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        self.queue = Queue(connection=Redis.from_url(url))

    async def enqueue(self, n: int) -> None:
        self.queue.enqueue(mark, n, result_ttl=0)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        self.queue.enqueue_many([Queue.prepare_data(mark, (n,), result_ttl=0) for n in numbers])

    async def is_done(self) -> bool:
        return not self.queue.count and not self.queue.started_job_registry.count

    def work(self, go: Callable[[], None]) -> None:
        worker = SimpleWorker([self.queue], connection=self.queue.connection)
        go()
        worker.work(logging_level="WARNING")


if __name__ == "__main__":
    main(Rq)
