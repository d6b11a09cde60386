"""All duties of one worker or server."""

from __future__ import annotations

from taskyard.domain.retention import Retention
from taskyard.engine.maintenance.cron import CronStarter
from taskyard.engine.maintenance.duty import Duty, Shift, Steward
from taskyard.engine.maintenance.expire import Expirer
from taskyard.engine.maintenance.promote import Promoter
from taskyard.engine.maintenance.prune import Pruner
from taskyard.engine.maintenance.rescue import Rescuer
from taskyard.engine.notifier import Notifier
from taskyard.store.port import Store

DUTIES: tuple[type[Duty], ...] = (Promoter, CronStarter, Expirer, Rescuer)


class Upkeep:
    def __init__(
        self, store: Store, notifier: Notifier, steward: Steward, retention: Retention
    ) -> None:
        self._duties = [duty(store, notifier, steward) for duty in DUTIES]
        self._duties.append(Pruner(store, notifier, steward, retention))
        shift = Shift(store, steward, (duty.name for duty in self._duties))
        for one in self._duties:
            one.shift = shift

    def start(self) -> None:
        for duty in self._duties:
            duty.start()

    async def stop(self) -> None:
        for duty in self._duties:
            await duty.stop()
