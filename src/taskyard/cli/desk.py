"""What commands ask of a yard, be it one of this process or one behind a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self

from taskyard.domain.clock import Instant
from taskyard.domain.cron import CronEntry
from taskyard.domain.lane import Audited, Key, KeyRule, Lane
from taskyard.domain.logs import LogLine, LogMark
from taskyard.domain.node import Node
from taskyard.domain.rate import Rate
from taskyard.domain.retention import Pruned
from taskyard.domain.state import State
from taskyard.domain.statistics import KindStatistics
from taskyard.domain.task import Task, TaskQuery
from taskyard.handle import Office
from taskyard.verbs.lanes import UNSET, OrderName, Unset


class Clock(Protocol):
    async def now(self) -> Instant: ...


class Desk(Office, Protocol):
    """A `Yard` is one; `remote.RemoteYard` is the other."""

    @property
    def url(self) -> str: ...

    @property
    def store(self) -> Clock: ...

    async def exists(self) -> bool: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None: ...

    # --- looking ---

    async def find(self, query: TaskQuery | None = None) -> list[Task]: ...

    async def logs(
        self, task_id: str, *, after: LogMark | None = ..., limit: int = ...
    ) -> list[LogLine]: ...

    def follow_logs(
        self, task_id: str, *, after: LogMark | None = ...
    ) -> AsyncIterator[LogLine]: ...

    async def counts(self) -> Mapping[State, int]: ...

    async def is_paused(self) -> bool: ...

    async def lanes(self) -> list[Lane]: ...

    async def nodes(self) -> list[Node]: ...

    async def keys(self, limit: int = ...) -> list[Key]: ...

    async def key_rules(self) -> list[KeyRule]: ...

    async def crons(self) -> list[CronEntry]: ...

    async def statistics(self) -> list[KindStatistics]: ...

    async def audit(self, *, limit: int = ..., before: int | None = ...) -> list[Audited]: ...

    # --- changing ---

    async def set_lane(
        self,
        name: str,
        *,
        capacity: int | Unset | None = UNSET,
        max_depth: int | Unset | None = UNSET,
        rate: Rate | Unset | None = UNSET,
        order: OrderName | Unset = UNSET,
        ageing: float | Unset | None = UNSET,
        actor: str = ...,
    ) -> Lane: ...

    async def pause_lane(
        self,
        name: str,
        *,
        for_: timedelta | None = ...,
        reason: str | None = ...,
        actor: str = ...,
    ) -> Lane: ...

    async def resume_lane(self, name: str, *, actor: str = ...) -> Lane: ...

    async def pause(self, *, for_: timedelta | None = ..., actor: str = ...) -> None: ...

    async def resume(self, *, actor: str = ...) -> None: ...

    async def limit_key(
        self, pattern: str, limit: int | None = ..., *, rate: Rate | None = ..., actor: str = ...
    ) -> None: ...

    async def pause_cron(self, name: str, *, actor: str = ...) -> None: ...

    async def resume_cron(self, name: str, *, actor: str = ...) -> None: ...

    async def drop_cron(self, name: str, *, actor: str = ...) -> None: ...

    async def prune(
        self,
        *,
        dry_run: bool = ...,
        older_than: timedelta | None = ...,
        actor: str = ...,
        told: Callable[[int], None] = ...,
    ) -> Pruned: ...
