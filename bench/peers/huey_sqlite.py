"""huey on SQLite: with fsync, one worker thread that looks at least every 10 ms.

It removes a task before it runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from huey import SqliteHuey
from measuring import Peer, main, mark


class HueySqlite(Peer):
    def __init__(self, url: str, *options: str) -> None:
        super().__init__(url, *options)
        self.huey = SqliteHuey(filename=str(Path(url) / "huey.db"), fsync=True)
        self.noop = self.huey.task(name="noop")(mark)

    async def enqueue(self, n: int) -> None:
        self.noop(n)

    async def is_done(self) -> bool:
        return not self.huey.pending_count()

    def work(self, go: Callable[[], None]) -> None:
        consumer = self.huey.create_consumer(
            workers=1, periodic=False, initial_delay=0.001, max_delay=0.01
        )
        go()
        consumer.run()


if __name__ == "__main__":
    main(HueySqlite)
