"""`yard.testing()`: run inline, drain deterministically, move the clock, see what was enqueued."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Protocol, TypeVar

import msgspec

from taskyard.bridge import Bridge
from taskyard.domain.clock import as_datetime, as_instant
from taskyard.domain.cron import ticks
from taskyard.domain.errors import TaskFailed
from taskyard.domain.state import State
from taskyard.domain.task import Task, TaskQuery
from taskyard.engine.maintenance.cron import task_of
from taskyard.engine.registry import Registry
from taskyard.kind import TaskKind
from taskyard.store.port import Store
from taskyard.store.sqlite.store import SqliteStore
from taskyard.trial.clock import StillClock
from taskyard.trial.runner import Runner, plain

T = TypeVar("T")

AnyKind = TaskKind[..., Any]
MANY = 10_000
PAGE = 1000


class Ran(msgspec.Struct, frozen=True):
    """One attempt: the task as it was afterwards."""

    task: Task
    attempt: int

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def kind(self) -> str:
        return self.task.kind

    @property
    def state(self) -> State:
        return self.task.state

    @property
    def arguments(self) -> object:
        """As plain data."""
        return plain(self.task.payload)

    @property
    def result(self) -> object:
        """As plain data; None if there is none."""
        return None if self.task.result is None else plain(self.task.result)


class Trial:
    """A yard in memory. Nothing runs before `drain` or `step`; time moves with `advance` alone."""

    def __init__(
        self, store: Store, clock: StillClock, registry: Registry, capabilities: Sequence[str]
    ) -> None:
        self._store = store
        self._clock = clock
        self._registry = registry
        self._runner = Runner(store, registry, capabilities)

    @property
    def now(self) -> datetime:
        """What the clock of the trial shows."""
        return as_datetime(self._clock.now())

    def advance(self, by: timedelta | None = None, /, **units: float) -> datetime:
        """`trial.advance(minutes=5)`; what becomes due is run by the next `drain`."""
        span = timedelta(**units) if by is None else by
        if span < timedelta(0):
            raise ValueError(f"time goes forward only, not {span}")
        self._clock.advance(span.total_seconds())
        return self.now

    async def step(self) -> Ran | None:
        """Run the task that would start now, or say that there is none."""
        await self._start_crons()
        await self._store.promote()
        await self._store.expire()
        lease = await self._runner.join()
        try:
            claimed = await self._runner.next_claimed(lease)
            if claimed is None:
                return None
            await self._runner.run(claimed)
        finally:
            await self._store.retire(lease)
        task = await self._store.get(claimed.id)
        assert task is not None
        return Ran(task, claimed.attempt)

    async def drain(self, *, limit: int = MANY, raising: bool = False) -> list[Ran]:
        """Run whatever is due, one after the other, also what that enqueues, until nothing is.

        What waits for a later time waits on. With `raising`, an attempt that fails is raised as
        TaskFailed, with the stack of its body.
        """
        ran: list[Ran] = []
        while (one := await self.step()) is not None:
            ran.append(one)
            if raising:
                _raise_if_failed(one)
            if len(ran) >= limit:
                raise AssertionError(f"{limit:,} tasks have run and there are more: is it a loop?")
        return ran

    async def waiting(self, kind: AnyKind | str | None = None, **arguments: object) -> list[Task]:
        """What was enqueued and has not ended, oldest first: of this kind, with these arguments."""
        name = kind.name if isinstance(kind, TaskKind) else kind
        found: list[Task] = []
        for state in (State.QUEUED, State.PENDING, State.PAUSED):
            found += await self._all(TaskQuery(state=state, limit=PAGE))
        wanted = [
            task
            for task in found
            if (name is None or task.kind.partition("@")[0] == name)
            and _has(self._defaults(task.kind) | _arguments(task), arguments)
        ]
        return sorted(wanted, key=lambda task: task.no)

    async def assert_enqueued(
        self, kind: AnyKind | str, *, count: int | None = None, **arguments: object
    ) -> Task:
        """The first such task that waits. There must be one, or as many as `count` says."""
        found = await self.waiting(kind, **arguments)
        if not found or (count is not None and len(found) != count):
            raise AssertionError(await self._explained(kind, len(found), count, arguments))
        return found[0]

    async def assert_not_enqueued(
        self, kind: AnyKind | str | None = None, **arguments: object
    ) -> None:
        """No task of this kind with these arguments waits."""
        found = await self.waiting(kind, **arguments)
        if found:
            shown = "\n".join(f"  {_told(task)}" for task in found)
            raise AssertionError(f"nothing like that should wait, but:\n{shown}")

    async def close(self) -> None:
        await self._runner.resources.close()

    def _defaults(self, route: str) -> dict[str, object]:
        """What an argument is that was left out; a payload does not carry it."""
        if route not in self._registry:
            return {}
        parameters = inspect.signature(self._registry[route].function).parameters.values()
        given = {one.name: one.default for one in parameters if one.default is not one.empty}
        told: dict[str, object] = msgspec.to_builtins(given)
        return told

    async def _start_crons(self) -> None:
        now = self._clock.now()
        for entry in await self._store.crons():
            if entry.cron.paused or entry.next_at is None or entry.next_at > now:
                continue
            found = ticks(entry, now)
            tasks = [task_of(entry.cron, tick) for tick in found.start]
            await self._store.fire_cron(entry.cron.name, entry.next_at, tasks, found)

    async def _all(self, query: TaskQuery) -> list[Task]:
        found: list[Task] = []
        while page := await self._store.find(query):
            found += page
            query = msgspec.structs.replace(query, after=page[-1].no)
        return found

    async def _explained(
        self, kind: AnyKind | str, found: int, count: int | None, arguments: dict[str, object]
    ) -> str:
        name = kind.name if isinstance(kind, TaskKind) else kind
        said = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        wanted = "one" if count is None else str(count)
        shown = "\n".join(f"  {_told(task)}" for task in await self.waiting()) or "  nothing"
        return f"{wanted} of {name}({said}) should wait, but {found} do. What waits:\n{shown}"


def _raise_if_failed(ran: Ran) -> None:
    last = ran.task.failures[-1] if ran.task.failures else None
    if last is None or last.attempt != ran.attempt or last.error is None:
        return
    error = last.error
    raise TaskFailed(
        f"{ran.kind}: {error.type}: {error.message}\n{error.stack}".rstrip(),
        task_id=ran.id,
        error_type=error.type,
        stack=error.stack,
    )


def _arguments(task: Task) -> dict[str, object]:
    given = plain(task.payload)
    return given if isinstance(given, dict) else {}


def _has(given: dict[str, object], wanted: dict[str, object]) -> bool:
    plainly = msgspec.to_builtins(wanted)
    return all(name in given and given[name] == value for name, value in plainly.items())


def _told(task: Task) -> str:
    return f"{task.kind} {task.payload} ({task.state}, lane {task.lane})"


class SyncTrial:
    """The same for tests that block."""

    def __init__(self, trial: Trial, bridge: Bridge[Any]) -> None:
        self._trial = trial
        self._bridge = bridge

    def _run(self, ask: Callable[[Trial], Coroutine[Any, Any, T]]) -> T:
        return self._bridge.run(lambda _: ask(self._trial))

    @property
    def now(self) -> datetime:
        return self._trial.now

    def advance(self, by: timedelta | None = None, /, **units: float) -> datetime:
        return self._trial.advance(by, **units)

    def step(self) -> Ran | None:
        return self._run(lambda trial: trial.step())

    def drain(self, *, limit: int = MANY, raising: bool = False) -> list[Ran]:
        return self._run(lambda trial: trial.drain(limit=limit, raising=raising))

    def waiting(self, kind: AnyKind | str | None = None, **arguments: object) -> list[Task]:
        return self._run(lambda trial: trial.waiting(kind, **arguments))

    def assert_enqueued(
        self, kind: AnyKind | str, *, count: int | None = None, **arguments: object
    ) -> Task:
        return self._run(lambda trial: trial.assert_enqueued(kind, count=count, **arguments))

    def assert_not_enqueued(self, kind: AnyKind | str | None = None, **arguments: object) -> None:
        self._run(lambda trial: trial.assert_not_enqueued(kind, **arguments))


class TestedYard(Protocol):
    """What a trial asks of a yard."""

    url: str
    store: Store
    registry: Registry
    _bridge: Bridge[Any]

    def _settle(self, store: Store | None = None) -> None: ...

    async def _declare_crons(self) -> None: ...

    async def close(self) -> None: ...


class Testing:
    """`async with yard.testing() as trial:`, or `with` in a test that blocks.

    Meanwhile the yard has no other store: what a test enqueues cannot reach the real one.
    """

    __test__ = False  # pytest would take it for a test by its name

    def __init__(
        self, yard: TestedYard, *, start: datetime | None, capabilities: Sequence[str]
    ) -> None:
        self._yard = yard
        self._clock = StillClock(None if start is None else as_instant(start))
        self._capabilities = capabilities
        self._url = yard.url
        self._trial: Trial

    def _begin(self) -> Trial:
        yard = self._yard
        yard._bridge.close()  # noqa: SLF001 - a trial is part of the yard
        yard.url = "sqlite://:memory:"
        store = SqliteStore(":memory:", clock=self._clock)
        yard._settle(store)  # noqa: SLF001
        self._trial = Trial(store, self._clock, yard.registry, self._capabilities)
        return self._trial

    def _end(self) -> None:
        yard = self._yard
        yard._bridge.close()  # noqa: SLF001
        yard.url = self._url
        yard._settle()  # noqa: SLF001

    async def _open(self) -> None:
        await self._yard.store.open()
        await self._yard._declare_crons()  # noqa: SLF001

    async def _close(self) -> None:
        await self._trial.close()
        await self._yard.close()

    async def __aenter__(self) -> Trial:
        trial = self._begin()
        await self._open()
        return trial

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        await self._close()
        self._end()

    def __enter__(self) -> SyncTrial:
        trial = self._begin()
        bridge = self._yard._bridge  # noqa: SLF001
        bridge.run(lambda _: self._open())
        return SyncTrial(trial, bridge)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        self._yard._bridge.run(lambda _: self._close())  # noqa: SLF001
        self._end()
