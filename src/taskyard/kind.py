"""A declared task: what `@yard.task` makes of a function."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import msgspec

from taskyard.bridge import Blocking
from taskyard.domain.clock import Instant, as_instant
from taskyard.domain.errors import InvalidOption
from taskyard.domain.task import Dedup, Enqueue, Enqueued, NewTask, Refused, Until, new_task_id
from taskyard.engine.registry import Kind
from taskyard.handle import Handle, Office, SyncHandle

P = ParamSpec("P")
R = TypeVar("R")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What an enqueue may say beside the arguments; None: as the kind is declared."""

    id: str | None = None
    lane: str | None = None
    priority: int | None = None
    keys: tuple[str, ...] = ()
    group: str = ""
    dedup: str | None = None
    dedup_until: Until = Until.END
    requires: tuple[str, ...] = ()
    timeout: float | None = None
    retries: int | None = None
    delay: float | None = None
    run_at: Instant | None = None
    deadline: Instant | None = None

    def then(self, later: Options) -> Options:
        """These, and what was said later."""
        said = msgspec.structs.asdict(later)
        unsaid = msgspec.structs.asdict(Options())
        return msgspec.structs.replace(
            self, **{name: value for name, value in said.items() if value != unsaid[name]}
        )


class Entrance(Office, Protocol):
    """What a kind asks of its yard."""

    async def enqueue(self, *tasks: NewTask) -> list[Enqueue]: ...

    async def enqueue_in(self, connection: object, *tasks: NewTask) -> list[Enqueue]: ...

    def enqueue_in_sync(self, connection: object, *tasks: NewTask) -> list[Enqueue]: ...

    @property
    def bridge(self) -> Blocking[Entrance]: ...


class TaskKind(Generic[P, R]):
    """`await download.enqueue(url="…")`; with options: `download.options(key="…").enqueue(…)`."""

    def __init__(self, kind: Kind, entrance: Entrance, options: Options | None = None) -> None:
        self.kind = kind
        self._entrance = entrance
        self._options = options or Options()
        self.name = kind.name
        self.function = kind.function

    def options(
        self,
        *,
        id: str | None = None,  # noqa: A002 - the field's own name
        lane: str | None = None,
        priority: int | None = None,
        key: str | None = None,
        keys: Sequence[str] = (),
        group: str = "",
        dedup: str | None = None,
        dedup_until: str = Until.END,
        requires: Sequence[str] = (),
        timeout: float | None = None,
        retries: int | None = None,
        delay: float | None = None,
        run_at: datetime | None = None,
        deadline: datetime | None = None,
    ) -> TaskKind[P, R]:
        """The same kind with other policies for what is enqueued through the answer.

        What is not said here stays as it was said before.
        """
        if dedup_until not in tuple(Until):
            raise InvalidOption(f"dedup_until must be start or end, not {dedup_until!r}")
        if retries is not None and retries < 0:
            raise InvalidOption(f"retries must be 0 or more, not {retries}")
        if isinstance(keys, str):
            raise InvalidOption("keys takes a list of names; for a single one use key=")
        if isinstance(requires, str):
            raise InvalidOption("requires takes a list of names")
        said = Options(
            id=id,
            lane=lane,
            priority=priority,
            keys=(key, *keys) if key is not None else tuple(keys),
            group=group,
            dedup=dedup,
            dedup_until=Until(dedup_until),
            requires=tuple(sorted(requires)),
            timeout=timeout,
            retries=retries,
            delay=delay,
            run_at=_instant("run_at", run_at),
            deadline=_instant("deadline", deadline),
        )
        return TaskKind(self.kind, self._entrance, self._options.then(said))

    def new(self, *args: P.args, **kwargs: P.kwargs) -> NewTask:
        """The task for these arguments, checked but not saved: for `yard.enqueue(*tasks)`."""
        return self.from_payload(self.kind.signature.encode(args, kwargs))

    def from_payload(self, payload: str) -> NewTask:
        """The task for arguments that come as a JSON object, checked all the same."""
        kind, options = self.kind, self._options
        task = NewTask(
            kind=kind.name,
            payload=kind.signature.encode_json(payload),
            id=options.id or new_task_id(),
            lane=kind.lane if options.lane is None else options.lane,
            priority=kind.priority if options.priority is None else options.priority,
            keys=options.keys,
            group=options.group,
            dedup=Dedup(options.dedup, options.dedup_until) if options.dedup is not None else None,
            requires=options.requires,
            max_charged=(kind.retry.retries if options.retries is None else options.retries) + 1,
            timeout=kind.timeout if options.timeout is None else options.timeout,
            delay=options.delay,
            run_at=options.run_at,
            deadline=options.deadline,
        )
        task.check()
        return task

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Save the task. When this returns it survives the death of every process of ours."""
        [answer] = await self._entrance.enqueue(self.new(*args, **kwargs))
        return self.handle(answer)

    async def enqueue_in(
        self, connection: object, /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]:
        """Save the task in the transaction of this connection; it comes with its commit."""
        task = self.new(*args, **kwargs)
        [answer] = await self._entrance.enqueue_in(connection, task)
        return self.handle(answer)

    def enqueue_in_sync(
        self, connection: object, /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[R]:
        """The same on a connection that blocks."""
        [answer] = self._entrance.enqueue_in_sync(connection, self.new(*args, **kwargs))
        return self.handle(answer)

    @property
    def sync(self) -> SyncKind[P, R]:
        """The same for callers that block: `download.sync.enqueue(url="…")`."""
        return SyncKind(self, self._entrance.bridge)

    def handle(self, answer: Enqueue) -> Handle[R]:
        if isinstance(answer, Refused):
            raise InvalidOption(f"task {self.name} was refused: {answer.reason}")
        return Handle(
            answer.id,
            self._entrance,
            self.kind.signature.decode_result,
            duplicate=not isinstance(answer, Enqueued),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as in a test; nothing is enqueued."""
        return self.kind.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"


class SyncKind(Generic[P, R]):
    def __init__(self, kind: TaskKind[P, R], bridge: Blocking[Entrance]) -> None:
        self._kind = kind
        self._bridge = bridge

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> SyncHandle[R]:
        """Save the task. When this returns it survives the death of every process of ours."""
        task = self._kind.new(*args, **kwargs)
        [answer] = self._bridge.run(lambda entrance: entrance.enqueue(task))
        handle = self._kind.handle(answer)
        decode = self._kind.kind.signature.decode_result
        return SyncHandle(handle.id, self._bridge, decode, duplicate=handle.duplicate)


def _instant(name: str, moment: datetime | None) -> Instant | None:
    try:
        return None if moment is None else as_instant(moment)
    except ValueError as error:
        raise InvalidOption(f"{name}: {error}") from None
