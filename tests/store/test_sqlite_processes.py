"""Several processes on one machine share the file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from taskyard.domain.state import State
from taskyard.domain.task import TaskQuery
from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.verbs import complete, enqueued, node

ENQUEUE = """
import asyncio, sys
from taskyard.domain.task import NewTask
from taskyard.store.url import open_store

async def main(path, count):
    store = open_store("sqlite:///" + path)
    sys.stdin.readline()
    for _ in range(int(count)):
        await store.enqueue([NewTask(kind="work", payload="{}", keys=("k",))])
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""

WORK = """
import asyncio, sys
from taskyard.domain.node import NewNode
from taskyard.domain.outcome import Succeeded, decide
from taskyard.domain.retry import Retry
from taskyard.store.port import ClaimRequest
from taskyard.store.url import open_store

async def main(path, name):
    store = open_store("sqlite:///" + path)
    lease = await store.register(NewNode(id=name, kinds=("work",), slots=3))
    sys.stdin.readline()
    number, done = 0, []
    while (await store.counts())["queued"]:
        number += 1
        claim = await store.claim(ClaimRequest(lease=lease, number=number, room=3))
        done += [task.id for task in claim.tasks]
        await store.finish([decide(t, Succeeded(), Retry.never()) for t in claim.tasks])
    await store.retire(lease)
    await store.close()
    print(*done)

asyncio.run(main(*sys.argv[1:]))
"""


async def together(script: str, *arguments: tuple[str, ...]) -> list[list[str]]:
    """Run the script once for each set of arguments, all at the same time; what each printed."""
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", script, *each),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for each in arguments
    ]
    async with asyncio.timeout(60):
        outputs = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [out.decode().split() for out, _ in outputs]


@pytest.mark.spec("engine-28", "engine-27")
async def test_a_fresh_file_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "yard.db")

    await together(ENQUEUE, *[(path, "10")] * 6)

    store = SqliteStore(path)
    assert (await store.counts())[State.QUEUED] == 60
    assert [lane.name for lane in await store.lanes()] == ["default"]
    tasks = await store.find(TaskQuery(limit=1000))
    assert len({task.seq for task in tasks}) == 60
    await store.close()


@pytest.mark.spec("engine-28", "engine-19")
async def test_every_task_is_done_once_by_one_of_the_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "yard.db")
    store = SqliteStore(path)
    made = [await enqueued(store, keys=(f"k{n % 4}",)) for n in range(60)]

    done = await together(WORK, (path, "node-a"), (path, "node-b"), (path, "node-c"))

    assert sorted(task_id for each in done for task_id in each) == sorted(made)
    assert (await store.counts())[State.COMPLETED] == 60
    assert {task.attempt for task in await store.find(TaskQuery(limit=1000))} == {1}
    await store.close()


@pytest.mark.spec("engine-28", "engine-18")
async def test_what_another_process_saved_can_be_claimed_here(tmp_path: Path) -> None:
    path = str(tmp_path / "yard.db")
    store = SqliteStore(path)
    worker = await node(store)

    await together(ENQUEUE, (path, "2"))

    first = await worker.claim_one()
    await complete(store, first)
    assert (await worker.claim_one()).id != first.id
    await store.close()
