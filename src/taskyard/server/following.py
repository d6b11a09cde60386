"""Logs of tasks as they are said, for many who follow them: of each task the store is asked once
for all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from taskyard.domain.errors import NotFound, StoreError
from taskyard.domain.logs import PAGE_LINES, LogLine, LogMark
from taskyard.domain.state import State
from taskyard.engine.log import logger
from taskyard.engine.redact import without_logins
from taskyard.yard import Yard

KEPT = 200  # lines of a task; who is behind them asks the store

log = logger("server")


class Following:
    """The tasks that are followed now."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._followed: dict[str, _Followed] = {}
        self.is_over = False

    def follow(self, task_id: str, after: LogMark) -> Follower:
        return Follower(self, self._yard, task_id, after)

    def begin(self) -> None:
        self.is_over = False

    def end(self) -> None:
        """Those who follow may go."""
        self.is_over = True
        for one in self._followed.values():
            one.wake()

    async def stop(self) -> None:
        self.end()
        readings = [one.stop() for one in self._followed.values()]
        self._followed.clear()
        await asyncio.gather(*readings, return_exceptions=True)

    def enter(self, task_id: str, after: LogMark) -> _Followed:
        found = self._followed.get(task_id)
        if found is None or found.is_over:
            found = self._followed[task_id] = _Followed(self._yard, task_id, after)
        found.followers += 1
        return found

    def leave(self, one: _Followed) -> None:
        one.followers -= 1
        if not one.followers:
            one.stop()
            if self._followed.get(one.task_id) is one:
                del self._followed[one.task_id]


class _Followed:
    """One task: what was said behind `floor`, as far as it is known here."""

    def __init__(self, yard: Yard, task_id: str, floor: LogMark) -> None:
        self.task_id = task_id
        self.floor = floor
        self.lines: deque[LogLine] = deque()
        self.followers = 0
        self.is_over = False
        self.state: State | None = None  # in which it has ended
        self._yard = yard
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read_on(), name="taskyard-follow-logs")

    def stop(self) -> asyncio.Task[None]:
        self._reading.cancel()
        return self._reading

    def wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        news = self._news
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()

    async def _read_on(self) -> None:
        """Until it has ended. Whatever else ends it, those who follow come back and begin anew."""
        try:
            async for line in self._yard.follow_logs(self.task_id, after=self.floor):
                self._keep(line)
            for ending in await self._yard.store.endings([self.task_id]):
                self.state = ending.state
        except NotFound:
            pass  # pruned
        except StoreError as error:
            log.warning("follow", task=self.task_id, error=without_logins(str(error)))
        except Exception:
            log.exception("follow", task=self.task_id)
        finally:
            self.is_over = True
            self.wake()

    def _keep(self, line: LogLine) -> None:
        self.lines.append(line)
        if len(self.lines) > KEPT:
            self.floor = self.lines.popleft().mark
        self.wake()


class Follower:
    """One who follows, and how far it has come."""

    def __init__(self, following: Following, yard: Yard, task_id: str, after: LogMark) -> None:
        self._following = following
        self._yard = yard
        self._task_id = task_id
        self._mark = after
        self._followed: _Followed | None = None

    @property
    def is_over(self) -> bool:
        """Whether no more lines come, but for those that can be taken now."""
        return self._followed is not None and self._followed.is_over

    @property
    def state(self) -> State | None:
        """In which the task has ended, when all is over."""
        return None if self._followed is None else self._followed.state

    async def take(self) -> list[LogLine]:
        """What was said since the last time; as a page if that is much."""
        followed = self._followed
        if followed is None or self._mark < followed.floor:
            lines = await self._yard.logs(self._task_id, after=self._mark)
        else:
            lines = [line for line in followed.lines if line.mark > self._mark]
        if lines:
            self._mark = lines[-1].mark
        if followed is None and len(lines) < PAGE_LINES:  # that was all there is so far
            self._followed = self._following.enter(self._task_id, self._mark)
        return lines

    async def wait(self, seconds: float) -> None:
        if self._followed is not None:
            await self._followed.wait(seconds)

    def leave(self) -> None:
        if self._followed is not None:
            self._following.leave(self._followed)
            self._followed = None
