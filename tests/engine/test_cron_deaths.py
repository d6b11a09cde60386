"""Several schedulers, killed in turn: each tick is started exactly once."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from taskyard import TaskQuery, Yard
from taskyard.domain.clock import SECOND
from taskyard.domain.cron import CatchUp, Cron, tick_id
from taskyard.domain.task import NewTask
from tests.engine.waits import found
from tests.servers.urls import STORES, fresh_url

CRONS = 30
HOURS = 24
HOUR = 3_600 * SECOND


@asynccontextmanager
async def scheduler(url: str, fires: int, when: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.engine.cron_scheduler", url, str(fires), when)
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.spec("lifecycle-18", "engine-26", "reliability-21")
@pytest.mark.parametrize("store", STORES)
async def test_schedulers_that_die_in_turn_start_each_tick_once(store: str, tmp_path: Path) -> None:
    url = fresh_url(store, tmp_path)
    async with Yard(url) as yard:
        task = NewTask(kind="nobody_runs_this", payload="{}")
        crons = [
            Cron(name=f"c{n}", schedule="0 * * * *", task=task, catch_up=CatchUp.ALL)
            for n in range(CRONS)
        ]
        first = (await yard.store.now()) // HOUR * HOUR - (HOURS - 1) * HOUR
        for cron in crons:
            await yard.store.set_cron(cron, first, actor="ann")

        async with (
            scheduler(url, 8, "after") as one,
            scheduler(url, 8, "before") as two,
            scheduler(url, 8, "after") as three,
        ):
            # Whoever is on duty dies, and the next one goes on where the store has come to.
            dead = await asyncio.gather(one.wait(), two.wait(), three.wait())
            assert set(dead) == {-signal.SIGKILL}
            async with scheduler(url, 0, "never"):

                async def caught_up() -> bool | None:
                    entries = await yard.store.crons()
                    return all(entry.next_at != first for entry in entries) or None

                await found(yard, caught_up, limit=60)
                entries = await yard.store.crons()
        wanted = sorted(
            tick_id(entry.cron.name, tick)
            for entry in entries
            for tick in range(first, entry.next_at or 0, HOUR)
        )
        got: list[str] = []
        after: int | None = None
        while page := await yard.find(TaskQuery(limit=500, after=after)):
            got += [task.id for task in page]
            after = page[-1].no
    assert len(wanted) >= CRONS * HOURS
    assert sorted(got) == wanted
