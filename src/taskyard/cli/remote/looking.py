"""How a server is asked what there is."""

from __future__ import annotations

import asyncio
import base64
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from taskyard.cli.remote.events import Event
from taskyard.cli.remote.link import Link, below
from taskyard.cli.remote.problems import NoServer, OtherRelease
from taskyard.cli.remote.schema import type_of
from taskyard.cli.remote.wire import (
    AuditPage,
    Crons,
    Glance,
    Keys,
    Kinds,
    Lanes,
    LogPage,
    Nodes,
    SeenLog,
    SeenTask,
    Stats,
    TaskPage,
)
from taskyard.domain.clock import Instant, as_datetime
from taskyard.domain.cron import CronEntry
from taskyard.domain.errors import NotFound, StoreBusy
from taskyard.domain.explain import Explanation
from taskyard.domain.lane import Audited, Key, KeyRule, Lane
from taskyard.domain.logs import PAGE_LINES, LogLine, LogMark
from taskyard.domain.node import Node
from taskyard.domain.state import TERMINAL, State
from taskyard.domain.statistics import KindStatistics
from taskyard.domain.task import Task, TaskQuery
from taskyard.store.port import Ending

PAGE = 500  # what a server gives at most
ASK_AGAIN = 1.0  # seconds after a stream was cut off
COMES_BACK = 60.0  # seconds in which a server whose stream was cut off is back
LOOK_AGAIN = (0.05, 1.0)  # seconds between two looks at a task that is waited for: first, longest


class Looking:
    def __init__(self, link: Link) -> None:
        self._link = link

    async def now(self) -> Instant:
        return (await self._glance()).now

    async def is_paused(self) -> bool:
        return (await self._glance()).paused

    async def counts(self) -> Mapping[State, int]:
        return (await self._glance()).counts

    async def _glance(self) -> Glance:
        return await self._link.get("/api/yard", Glance)

    async def get(self, task_id: str) -> Task:
        seen = await self._link.get(task_path(task_id), SeenTask)
        return seen.as_task()

    async def find(self, query: TaskQuery | None = None) -> list[Task]:
        """Without payloads and results; `get` has them."""
        asked = query or TaskQuery()
        asked.check()
        found: list[Task] = []
        cursor = None if asked.after is None else _cursor(f"no:{asked.after}")
        while len(found) < asked.limit:
            page = await self._link.get(
                "/api/tasks",
                TaskPage,
                state=asked.state,
                kind=asked.kind,
                lane=asked.lane,
                key=asked.key,
                since=_moment(asked.since),
                until=_moment(asked.until),
                limit=min(PAGE, asked.limit - len(found)),
                cursor=cursor,
            )
            found += [seen.as_task() for seen in page.items]
            cursor = page.next
            if cursor is None:
                break
        return found

    async def explain(self, task_id: str) -> Explanation:
        return await self._link.get(task_path(task_id, "explain"), Explanation)

    async def ending(self, task_id: str, timeout: float | None) -> Ending | None:
        """Looks again and again, less and less often."""
        pause, longest = LOOK_AGAIN
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            task = await self.get(task_id)
            if task.state in TERMINAL:
                return Ending(task.id, task.state, task.result, task.error)
            left = longest if until is None else until - time.monotonic()
            if left <= 0:
                return None
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, longest)

    async def logs(
        self, task_id: str, *, after: LogMark | None = None, limit: int = PAGE_LINES
    ) -> list[LogLine]:
        place = None if after is None else _cursor(f"line:{_place(after)}")
        page = await self._link.get(task_path(task_id, "logs"), LogPage, after=place, limit=limit)
        return [line.as_line() for line in page.items]

    async def follow_logs(
        self, task_id: str, *, after: LogMark | None = None
    ) -> AsyncIterator[LogLine]:
        """A server that hangs up is asked again where it was: it may have been started anew."""
        path, last, heard = task_path(task_id, "logs", "stream"), _place(after), -math.inf
        while True:
            try:
                async with aclosing(self._link.events(path, last)) as events:
                    async for event in events:
                        heard, last = time.monotonic(), event.id or last
                        if event.name == "end":
                            return
                        for line in await self._lines(event):
                            yield line
            except NotFound:
                if heard == -math.inf:
                    raise
                return  # pruned meanwhile
            except OtherRelease:
                raise
            except (NoServer, StoreBusy):
                if time.monotonic() - heard > COMES_BACK:
                    raise
            await asyncio.sleep(ASK_AGAIN)

    async def _lines(self, event: Event) -> list[LogLine]:
        if event.name != "lines":
            return []
        found = await self._link.decoded(event.data, list[SeenLog])
        return [line.as_line() for line in found]

    async def lanes(self) -> list[Lane]:
        return [lane.as_lane() for lane in (await self._link.get("/api/lanes", Lanes)).items]

    async def nodes(self) -> list[Node]:
        return [node.as_node() for node in (await self._link.get("/api/nodes", Nodes)).items]

    async def keys(self, limit: int = 100) -> list[Key]:
        return (await self._link.get("/api/keys", Keys, limit=limit)).items

    async def key_rules(self) -> list[KeyRule]:
        return (await self._link.get("/api/keys", Keys, limit=1)).rules

    async def crons(self) -> list[CronEntry]:
        return [cron.as_entry() for cron in (await self._link.get("/api/crons", Crons)).items]

    async def statistics(self) -> list[KindStatistics]:
        return (await self._link.get("/api/stats", Stats)).kinds

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[Audited]:
        found: list[Audited] = []
        while len(found) < limit:
            wanted = min(PAGE, limit - len(found))
            page = await self._link.get("/api/audit", AuditPage, limit=wanted, before=before)
            found += [line.as_audited() for line in page.items]
            before = page.next
            if before is None:
                break
        return found

    async def parameters(self, kind: str) -> dict[str, Any]:
        """The types of a kind's parameters, as far as JSON tells them apart."""
        kinds = (await self._link.get("/api/kinds", Kinds)).items
        schema = next((one.parameters for one in kinds if one.name == kind), {})
        properties = schema.get("properties", {})
        return {name: type_of(parameter) for name, parameter in properties.items()}


def task_path(task_id: str, *more: str) -> str:
    if not task_id:
        raise NotFound("there is no task without an id")
    return f"/api/tasks{below(task_id, *more)}"


def _place(mark: LogMark | None) -> str | None:
    return None if mark is None else f"{mark[0]}.{mark[1]}"


def _moment(at: Instant | None) -> str | None:
    return None if at is None else as_datetime(at).isoformat()


def _cursor(place: str) -> str:
    """Behind a row, as the server writes it."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")
