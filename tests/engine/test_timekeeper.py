"""Bodies that run longer than they may."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace

import pytest

from taskyard import Retry, Yard
from taskyard.engine.log import FIELDS
from taskyard.engine.timekeeper import Timekeeper
from tests.engine.waits import ended, working

GRACE = 30.0


@pytest.mark.spec("lifecycle-11", "lifecycle-17")
async def test_a_body_that_ignores_its_timeout_is_told_of_once_in_a_grace(
    yard: Yard, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper_log = "taskyard.timekeeper"
    caplog.set_level(logging.WARNING, keeper_log)
    go, began = threading.Event(), threading.Event()

    @yard.task(retry=Retry.never())
    def deaf() -> None:
        began.set()
        go.wait()

    async with working(yard) as worker:
        handle = await deaf.enqueue()
        assert await asyncio.to_thread(began.wait, 20)
        [job] = worker.hand.running.values()
        now = 0.0
        clock = SimpleNamespace(monotonic=lambda: now)
        with monkeypatch.context() as faked:
            faked.setattr("taskyard.engine.job.time", clock)
            keeper = Timekeeper(worker.hand.running, GRACE)
            for second in range(100):
                now = job.deadline + second
                keeper._end(job, now)
        go.set()
        await ended(handle)
    told = [getattr(record, FIELDS) for record in caplog.records if record.name == keeper_log]
    assert [(line["event"], line.get("seconds_late")) for line in told] == [
        ("timeout", None),
        ("a body ignores its timeout", 30),
        ("a body ignores its timeout", 60),
        ("a body ignores its timeout", 90),
    ]
