"""huey on Redis: four worker threads, a blocking pop.

It removes a task before it runs it.
"""

from __future__ import annotations

from collections.abc import Callable

from huey import RedisHuey
from measuring import Peer, main, mark


class HueyRedis(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        self.huey = RedisHuey(url=url)
        self.noop = self.huey.task(name="noop")(mark)

    async def enqueue(self, n: int) -> None:
        self.noop(n)

    async def is_done(self) -> bool:
        return not self.huey.pending_count()

    def work(self, go: Callable[[], None]) -> None:
        consumer = self.huey.create_consumer(workers=4, periodic=False)
        go()
        consumer.run()


if __name__ == "__main__":
    main(HueyRedis)
