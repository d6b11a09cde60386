"""A power cut on SQLite loses nothing that was acknowledged, wherever it falls."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from taskyard.domain.state import State
from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.verbs import complete, enqueued, new, node
from tests.store.power_cut import PLAIN_DISK, Acknowledged, RecordingDisk, remains

CUTS = 150


@pytest.fixture
def disk() -> Iterator[RecordingDisk]:
    disk = RecordingDisk()
    yield disk
    disk.unregister()


async def work_and_acknowledge(path: Path, disk: RecordingDisk) -> None:
    """Enqueue, claim and finish; each answer of the store is noted in the disk's log."""

    def note(what: str) -> None:
        disk.events.append(Acknowledged(what))

    store = SqliteStore(str(path))
    await store.open()
    worker = await node(store)
    note("open")
    for _ in range(20):
        for _ in range(3):
            note(f"enqueued {await enqueued(store, keys=('k',), payload='{}')}")
        many = [new(payload='{"x": "' + "y" * 2000 + '"}') for _ in range(20)]
        await store.enqueue(many)
        for task in many:
            note(f"enqueued {task.id}")
        claimed = await worker.claim(10)
        for held in claimed:
            note(f"claimed {held.id}")
        await complete(store, *claimed)
        for held in claimed:
            note(f"completed {held.id}")
    await store.close()


@pytest.mark.spec("engine-18", "reliability-24")
async def test_what_was_acknowledged_survives_a_power_cut_at_any_moment(
    tmp_path: Path, disk: RecordingDisk
) -> None:
    await work_and_acknowledge(tmp_path / "yard.db", disk)
    events, dice = list(disk.events), random.Random(7)
    opened = events.index(Acknowledged("open"))
    assert len(events) > opened + CUTS

    for cut in sorted(dice.sample(range(opened, len(events)), CUTS)):
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        for name, image in remains(events, cut, dice).items():
            (folder / name).write_bytes(image)
        states = read_back(folder / "yard.db")
        for event in events[:cut]:
            if isinstance(event, Acknowledged) and event.what != "open":
                what, task_id = event.what.split()
                assert states[task_id] in AFTER[what], (cut, what, task_id, states[task_id])


AFTER = {
    "enqueued": {State.QUEUED, State.RUNNING, State.COMPLETED},
    "claimed": {State.RUNNING, State.COMPLETED},
    "completed": {State.COMPLETED},
}


def read_back(path: Path) -> dict[str, str]:
    """The tasks a fresh process finds, after the database has repaired itself."""
    db = apsw.Connection(str(path), vfs=PLAIN_DISK)
    try:
        assert next(db.execute("PRAGMA integrity_check"))[0] == "ok"
        return {str(i): str(s) for i, s in db.execute("SELECT id, state FROM taskyard_tasks")}
    finally:
        db.close()
