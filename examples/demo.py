"""`make demo`: tasks flow through two lanes with keys, one is retried, one is cancelled while it
runs, and a worker is killed with SIGKILL. Everything ends well; the closing table says how."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from taskyard import Handle, Reason, State, Task, TaskCancelled, TaskKind, TaskQuery, Yard

HERE = Path(__file__).parent
SUBSCRIPTIONS, EPISODES, FILES = 12, 10, 40
CAPACITY = {"downloads": 8, "conversions": 3}
PATIENCE = 50.0

console = Console()


class Story:
    """What is shown while it happens."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lines: list[Text] = []
        self.bars = Progress(
            TextColumn("{task.description:>12}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
        )

    def tell(self, text: str, style: str = "") -> None:
        line = Text(f"{time.monotonic() - self._began:5.1f} s  ", style="dim")
        self._lines.append(line.append(text, style=style or "default"))

    def __rich__(self) -> Panel:
        return Panel(Group(self.bars, Text(), *self._lines), title="Taskyard", width=96)


class Workers:
    """Two real worker processes: `taskyard worker demo_tasks:yard`."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._env = os.environ | {"TASKYARD_URL": url, "PYTHONPATH": str(HERE)}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._started = 0

    def start(self) -> int:
        self._started += 1
        log = self._folder / f"worker-{self._started}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "taskyard", "worker", "demo_tasks:yard", "--slots", "16"],
                env=self._env,
                stdout=output,
                stderr=output,
            )
        self._processes[process.pid] = process
        return process.pid

    def kill(self, pid: int) -> None:
        self._processes.pop(pid).send_signal(signal.SIGKILL)

    def check(self) -> None:
        """A worker that ended by itself would leave us waiting for nothing."""
        for pid, process in self._processes.items():
            if process.poll() is not None:
                logs = "".join(log.read_text() for log in self._folder.glob("*.log"))
                raise SystemExit(f"worker {pid} ended with {process.returncode}:\n{logs}")

    def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(timeout=20)


async def main() -> int:
    with tempfile.TemporaryDirectory(prefix="taskyard-demo-") as name:
        folder = Path(name)
        url = f"sqlite:///{folder / 'demo.db'}"
        os.environ["TASKYARD_URL"] = url
        workers = Workers(folder, url)
        try:
            return await demonstrate(workers)
        finally:
            workers.stop()


async def demonstrate(workers: Workers) -> int:
    tasks = importlib.import_module("demo_tasks")  # now that it finds the URL of its yard
    yard: Yard = tasks.yard
    story = Story()
    async with yard:
        for lane, capacity in CAPACITY.items():
            await yard.set_lane(lane, capacity=capacity, actor="demo")
        with Live(story, console=console, refresh_per_second=8):
            watching = asyncio.create_task(watch(story, yard, workers))
            index = await tasks.build_index.options(priority=1).enqueue()
            export = await tasks.export_everything.options(priority=1).enqueue()
            await yard.enqueue(
                *(
                    tasks.download.options(key=f"sub:{sub}").new(subscription=sub, episode=episode)
                    for episode in range(EPISODES)
                    for sub in range(SUBSCRIPTIONS)
                )
            )
            await yard.enqueue(*(tasks.convert.new(file=f"file-{n}") for n in range(FILES)))
            story.tell(f"{SUBSCRIPTIONS * EPISODES} downloads and {FILES} conversions enqueued")
            story.tell("workers started: " + ", ".join(str(workers.start()) for _ in range(2)))

            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(
                    kill_under(story, yard, workers, index),
                    cancel_running(story, export),
                    retried(story, tasks.download_from_busy_server, index),
                    watching,
                )
        return await report(yard)


async def watch(story: Story, yard: Yard, workers: Workers) -> None:
    """Keep the bars true until everything has ended."""
    totals = {"downloads": SUBSCRIPTIONS * EPISODES + 2, "conversions": FILES + 1}
    bars = {lane: story.bars.add_task(lane, total=total, note="") for lane, total in totals.items()}
    while True:
        workers.check()
        lanes = {lane.name: lane for lane in await yard.lanes()}
        for name, bar in bars.items():
            lane = lanes.get(name)
            if lane is not None:
                left = lane.queued + lane.running + lane.pending
                note = f"{lane.running} of {lane.capacity} running, {lane.queued} queued"
                story.bars.update(bar, completed=totals[name] - left, note=note)
        counts = await yard.counts()
        if sum(counts.values()) and not any(
            counts[state] for state in (State.PENDING, State.QUEUED, State.RUNNING)
        ):
            ended = await yard.find(TaskQuery(limit=1000))
            if len(ended) == sum(totals.values()):
                return
        await asyncio.sleep(0.1)


async def once(handle: Handle[Any], true: Callable[[Task], object]) -> Task:
    """The task as soon as this is true of it."""
    task = await handle.task()
    while not true(task):
        await asyncio.sleep(0.05)
        task = await handle.task()
    return task


def is_running(task: Task) -> bool:
    return task.state is State.RUNNING


async def kill_under(story: Story, yard: Yard, workers: Workers, index: Handle[str]) -> None:
    task = await once(index, is_running)
    [pid] = [n.process.pid for n in await yard.nodes() if n.id == task.node and n.process]
    workers.kill(pid)
    story.tell(f"SIGKILL to worker {pid} while it runs build_index", "red")
    story.tell(f"a new worker is started: {workers.start()}")
    result = await index.result(timeout=PATIENCE)
    story.tell(f"build_index was rescued: {result}", "green")


async def cancel_running(story: Story, export: Handle[None]) -> None:
    await once(export, is_running)
    await asyncio.sleep(2)
    await export.cancel(actor="demo")
    story.tell("export_everything is cancelled while it runs", "yellow")
    try:
        await export.result(timeout=PATIENCE)
    except TaskCancelled:
        story.tell("export_everything has stopped, its room is free again", "green")


async def retried(story: Story, kind: TaskKind[[], str], index: Handle[str]) -> None:
    """After the kill: attempts that died with a worker are none that the server refused."""
    await index.result(timeout=PATIENCE)
    busy = await kind.options(priority=1).enqueue()
    await once(busy, lambda task: task.failures)
    story.tell("the busy server answered 503: tried again in 1 s", "yellow")
    result = await busy.result(timeout=PATIENCE)
    story.tell(f"the busy server {result}", "green")


async def report(yard: Yard) -> int:
    tasks = await yard.find(TaskQuery(limit=1000))
    rescues = [entry for entry in await yard.audit(limit=1000) if entry.action == "rescued"]
    table = Table(title="What happened", title_justify="left")
    table.add_column("lane")
    for heading in ("completed", "cancelled", "failed", "most at once", "capacity"):
        table.add_column(heading, justify="right")
    for lane, capacity in CAPACITY.items():
        states = Counter(task.state for task in tasks if task.lane == lane)
        most = most_at_once([task for task in tasks if task.lane == lane])
        table.add_row(
            lane,
            *(str(states[state]) for state in (State.COMPLETED, State.CANCELLED, State.FAILED)),
            str(most),
            str(capacity),
        )
    console.print()
    console.print(table)
    twice = sum(
        most_at_once([task for task in tasks if f"sub:{sub}" in task.keys]) > 1
        for sub in range(SUBSCRIPTIONS)
    )
    retries = sum(failure.reason is Reason.ERROR for task in tasks for failure in task.failures)
    facts = {
        "subscriptions that ran twice at once": (twice, 0),
        "attempts that failed and were retried": (retries, None),
        "tasks rescued from the killed worker (more than one ran there)": (len(rescues), None),
        "tasks lost": (SUBSCRIPTIONS * EPISODES + FILES + 3 - len(tasks), 0),
    }
    wrong = 0
    for fact, (seen, wanted) in facts.items():
        ok = seen == wanted if wanted is not None else seen >= 1
        wrong += not ok
        console.print(f"  [{'green' if ok else 'red'}]{seen:>3}[/]  {fact}")
    states = Counter(task.state for task in tasks)
    wrong += states[State.CANCELLED] != 1 or states[State.FAILED] != 0
    return 1 if wrong else 0


def most_at_once(tasks: Iterable[Task]) -> int:
    """From the last attempt of each task, as the store has it."""
    moments = sorted(
        moment
        for task in tasks
        if task.started_at is not None and task.ended_at is not None
        for moment in ((task.started_at, 1), (task.ended_at, -1))
    )
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
