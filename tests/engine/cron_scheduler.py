"""A worker that dies while it starts periodic tasks.

`python -m tests.engine.cron_scheduler URL FIRES WHEN`: it kills itself at so many starts of a tick,
`before` the store is asked or `after` it has answered; 0: it does not.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from taskyard import Yard
from taskyard.domain.clock import Instant
from taskyard.domain.cron import Ticks
from taskyard.domain.task import Enqueue, NewTask
from taskyard.engine.maintenance.cron import CronStarter

LEASE = 0.5  # seconds; so soon others take the duty over


def mortal(yard: Yard, fires: int, when: str) -> None:
    fire, done = yard.store.fire_cron, 0

    async def fire_cron(
        name: str, due: Instant, tasks: Sequence[NewTask], found: Ticks
    ) -> list[Enqueue] | None:
        nonlocal done
        done += 1
        if done == fires and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answers = await fire(name, due, tasks, found)
        if done == fires:
            os.kill(os.getpid(), signal.SIGKILL)
        return answers

    yard.store.fire_cron = fire_cron  # type: ignore[method-assign]


async def main(url: str, fires: int, when: str) -> None:
    yard = Yard(url)
    mortal(yard, fires, when)
    CronStarter.idle_seconds = LEASE / 5
    await yard.worker(lease_seconds=LEASE).run_until(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
