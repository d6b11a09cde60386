"""The life of a yard: what belongs to this process, opened and closed."""

from __future__ import annotations

from taskyard.engine.enqueuer import Enqueuer
from taskyard.engine.notifier import Notifier
from taskyard.engine.waiting import WaitingRoom
from taskyard.forks import leave_behind, mind_forks
from taskyard.store.port import Schema, Store
from taskyard.store.url import open_store
from taskyard.verbs.base import Ground


class Life(Ground):
    def _settle(self, store: Store | None = None) -> None:
        """Make everything that belongs to this process."""
        self.store = open_store(self.url) if store is None else store
        self._enqueuer = Enqueuer(self.store)
        self._notifier = Notifier(self.store)
        self._waiting = WaitingRoom(self.store, self._notifier)
        self._workers = []
        mind_forks(self)

    def begin_anew(self) -> None:
        """In a forked child: the parent's store, workers and waiting callers are not ours."""
        leave_behind(self.store, self._enqueuer, self._notifier, self._waiting, self._workers)
        self._settle()

    async def exists(self) -> bool:
        """Whether the store holds a yard already; `open` would make one."""
        return await self.store.exists()

    async def schema(self) -> Schema:
        """How far the schema of the store is from that of this release; `open` brings it there."""
        return await self.store.schema()

    async def open(self) -> None:
        """Open the store now, not at its first use; make the yard if there is none."""
        await self.store.open()

    async def close(self) -> None:
        """Drain the workers of this yard, then close the store; idempotent."""
        for worker in self._workers:
            await worker.stop()
        self._workers.clear()
        await self._enqueuer.stop()
        await self._waiting.stop()
        self._notifier.stop()
        await self.store.close()
