"""Logs: what bodies have said, attempt by attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from taskyard.domain.errors import NotFound
from taskyard.domain.logs import PAGE_LINES, LogLine, LogMark, with_gaps
from taskyard.verbs.base import Ground

LOOK_EVERY = 0.5  # seconds: as often as workers store lines


class LogVerbs(Ground):
    async def logs(
        self, task_id: str, *, after: LogMark | None = None, limit: int = PAGE_LINES
    ) -> list[LogLine]:
        """What the bodies of this task have said with `ctx.log`, the oldest first.

        The next page comes with `after=lines[-1].mark`; `after=(3, 0)` begins with attempt 3. In
        the place of lines that were dropped is one that says how many they were.
        """
        return with_gaps(await self.store.task_logs(task_id, after=after, limit=limit), after)

    async def follow_logs(
        self, task_id: str, *, after: LogMark | None = None
    ) -> AsyncIterator[LogLine]:
        """The same as it is said, until the task has ended: `async for line in …`."""
        is_known = False
        while True:
            has_ended = bool(await self.store.endings([task_id]))
            try:
                lines = await self.logs(task_id, after=after)
            except NotFound:
                if is_known:
                    return  # pruned meanwhile
                raise
            is_known = True
            for line in lines:
                yield line
            if lines:
                after = lines[-1].mark
            elif has_ended:
                return  # what was said was stored before the end
            else:
                await asyncio.sleep(LOOK_EVERY)
