"""A body that finds the disk full pauses its lane: whatever starts next would fail too."""

from __future__ import annotations

import errno
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard import Reason, State, Yard
from taskyard.domain.classify import Advice
from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.lane import Lane, LaneChange
from taskyard.engine import brake
from tests.engine import isolated_kinds
from tests.engine.waits import ended, found, working


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with Yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard:
        for kind in isolated_kinds.yard.registry:
            yard.registry.add(kind)
        yield yard


async def lane(yard: Yard, name: str) -> Lane:
    return next(lane for lane in await yard.lanes() if lane.name == name)


async def paused(yard: Yard, name: str) -> Lane:
    async def look() -> Lane | None:
        seen = await lane(yard, name)
        return seen if seen.paused else None

    return await found(yard, look)


@pytest.mark.spec("lifecycle-9", "lifecycle-7")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
async def test_a_full_disk_fails_the_task_and_pauses_its_lane(
    yard: Yard, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    caplog.set_level(logging.INFO, "taskyard")

    @yard.task(lane="files")
    async def save() -> None:
        raise OSError(code, "no room", "/data/a")

    async with working(yard):
        handle = await save.enqueue()
        task = await ended(handle)
        seen = await paused(yard, "files")
        late = await save.enqueue()
        explained = await yard.explain(late.id)
    assert (task.state, task.charged) == (State.FAILED, 1)
    assert seen.paused_reason == f"disk full: [Errno {code}] no room: '/data/a'"
    assert "disk full" in explained.text
    [line] = [one for one in await yard.audit() if one.subject == "lane:files"]
    assert (line.actor, line.action) == ("system", "pause")
    assert "lane paused" in caplog.text


@pytest.mark.spec("lifecycle-9")
@pytest.mark.parametrize("kind", ["full_disk", "full_disk_async"])
async def test_an_isolated_body_pauses_its_lane_too(yard: Yard, kind: str) -> None:
    async with working(yard):
        task = await ended(await yard.kind(kind).options(lane="files").enqueue())
        seen = await paused(yard, "files")
    assert (task.state, task.reason) == (State.FAILED, Reason.ERROR)
    assert (seen.paused_reason or "").startswith("disk full: ")


@pytest.mark.spec("lifecycle-9")
async def test_many_bodies_pause_their_lane_once(yard: Yard) -> None:
    @yard.task(lane="files")
    async def save() -> None:
        raise OSError(errno.ENOSPC, "no room")

    handles = [await save.enqueue() for _ in range(20)]
    async with working(yard, slots=20):
        for handle in handles:
            await ended(handle)
        await paused(yard, "files")
    lines = [one for one in await yard.audit() if one.subject == "lane:files"]
    assert len(lines) == 1


@pytest.mark.spec("lifecycle-9")
async def test_a_rule_of_the_users_own_keeps_the_lane_going(yard: Yard) -> None:
    def patient(error: BaseException) -> Advice | None:
        return Advice.RETRY if isinstance(error, OSError) else None

    @yard.task(lane="files", rules=[patient])
    async def save() -> None:
        raise OSError(errno.ENOSPC, "no room")

    async with working(yard):
        await ended(await save.options(retries=0).enqueue())
    assert not (await lane(yard, "files")).paused


async def test_a_store_that_is_away_for_a_moment_is_asked_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brake, "FIRST_REST", 0.0)
    set_lane, failures = yard.store.set_lane, [StoreUnavailable("away")] * 2

    async def flaky(name: str, change: LaneChange, *, actor: str) -> Lane:
        if failures:
            raise failures.pop()
        return await set_lane(name, change, actor=actor)

    monkeypatch.setattr(yard.store, "set_lane", flaky)

    @yard.task(lane="files")
    async def save() -> None:
        raise OSError(errno.ENOSPC, "no room")

    async with working(yard):
        await ended(await save.enqueue())
        await paused(yard, "files")
    assert failures == []
