"""A declared task: what `@yard.task` makes of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import msgspec

from taskyard.bridge import Blocking
from taskyard.domain.errors import TaskRefused
from taskyard.domain.task import (
    SURELY_FITS,
    Clash,
    Duplicate,
    Enqueue,
    NewTask,
    OnFailure,
    Refused,
    Until,
    new_task_id,
)
from taskyard.engine.hooks import A, B, E, When
from taskyard.engine.registry import Kind
from taskyard.engine.versions import Migration
from taskyard.handle import Handle, Office, SyncHandle
from taskyard.options import (
    NOTHING_SAID,
    ClashName,
    HasId,
    IfKeyHeld,
    OnFailureName,
    Options,
    UntilName,
    choice,
    ids,
    instant,
    names,
)

P = ParamSpec("P")
R = TypeVar("R")


class Entrance(Office, Protocol):
    """What a kind asks of its yard."""

    async def enqueue(self, *tasks: NewTask) -> list[Enqueue]: ...

    async def enqueue_in(self, connection: object, *tasks: NewTask) -> list[Enqueue]: ...

    def enqueue_in_sync(self, connection: object, *tasks: NewTask) -> list[Enqueue]: ...

    @property
    def bridge(self) -> Blocking[Entrance]: ...


_replaced = msgspec.structs.replace


class TaskKind(Generic[P, R]):
    """`await download.enqueue(url="…")`; with options: `download.options(key="…").enqueue(…)`."""

    def __init__(self, kind: Kind, entrance: Entrance, options: Options | None = None) -> None:
        self.kind = kind
        self._entrance = entrance
        self._options = options or NOTHING_SAID
        self._pattern: NewTask | None = None
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
        if_key_held: IfKeyHeld | None = None,
        group: str | None = None,
        dedup: str | None = None,
        dedup_until: UntilName | None = None,
        on_duplicate: ClashName | None = None,
        depends_on: Sequence[HasId | str] = (),
        on_failure: OnFailureName | None = None,
        requires: Sequence[str] = (),
        timeout: float | None = None,
        retries: int | None = None,
        delay: float | None = None,
        run_at: datetime | None = None,
        deadline: datetime | None = None,
    ) -> TaskKind[P, R]:
        """The same kind with other policies for what is enqueued through the answer.

        What is not said here stays as it was said before. docs/guides/enqueue.md has them all.
        """
        held = names("keys", keys)
        said = Options(
            id=id,
            lane=lane,
            priority=priority,
            keys=held if key is None else (key, *held),
            if_key_held=if_key_held,
            group=group,
            dedup=dedup,
            dedup_until=choice("dedup_until", Until, dedup_until),
            on_duplicate=choice("on_duplicate", Clash, on_duplicate),
            depends_on=ids(depends_on),
            on_failure=choice("on_failure", OnFailure, on_failure),
            requires=tuple(sorted(names("requires", requires))),
            timeout=timeout,
            retries=retries,
            delay=delay,
            run_at=instant("run_at", run_at),
            deadline=instant("deadline", deadline),
        )
        said.check()
        return TaskKind(self.kind, self._entrance, self._options.then(said))

    def new(self, *args: P.args, **kwargs: P.kwargs) -> NewTask:
        """The task for these arguments, checked but not saved: for `yard.enqueue(*tasks)`."""
        return self._task(self.kind.signature.encode(args, kwargs))

    def from_payload(self, payload: str) -> NewTask:
        """The task for arguments that come as a JSON object, checked all the same."""
        return self._task(self.kind.signature.encode_json(payload))

    def _task(self, payload: str) -> NewTask:
        pattern = self._pattern
        if pattern is None:
            pattern = self._pattern = self._make_pattern()
        task = _replaced(pattern, id=self._options.id or new_task_id(), payload=payload)
        if len(payload) > SURELY_FITS:
            task.check_own()
        return task

    def _make_pattern(self) -> NewTask:
        """The tasks differ from it in their ids and payloads alone."""
        kind, options = self.kind, self._options
        task = NewTask(
            kind=kind.route,
            payload="",
            id=options.id or new_task_id(),
            lane=kind.lane if options.lane is None else options.lane,
            priority=kind.priority if options.priority is None else options.priority,
            keys=options.keys,
            refuse_if_held=options.if_key_held == "refuse",
            group=options.group or "",
            dedup=options.as_dedup(),
            depends_on=options.depends_on,
            on_failure=options.on_failure or OnFailure.CANCEL,
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
        """What to do with an answer of `yard.enqueue(…)`; raises TaskRefused for a refusal."""
        if isinstance(answer, Refused):
            raise TaskRefused(f"task {self.name} was refused: {answer.reason}")
        return Handle(
            answer.id,
            self._entrance,
            self.decode_result,
            duplicate=isinstance(answer, Duplicate),
            changed=isinstance(answer, Duplicate) and answer.changed,
        )

    def decode_result(self, result: str | None) -> R:
        """A result of this kind, from JSON."""
        decoded: R = self.kind.signature.decode_result(result)
        return decoded

    # --- declaring ---

    def migrate(self, *, from_version: int) -> Callable[[Migration], Migration]:
        """Declare how arguments of this version become those of the next; as plain data."""

        def add(migration: Migration) -> Migration:
            self.kind.versions.add(from_version, migration)
            return migration

        return add

    def before(self, hook: B) -> B:
        """Declare what is called before each body of this kind; docs/guides/hooks.md."""
        self.kind.hooks.add(When.BEFORE, hook)
        return hook

    def after(self, hook: A) -> A:
        """The same after each body that has returned, `(ctx, result)`."""
        self.kind.hooks.add(When.AFTER, hook)
        return hook

    def error(self, hook: E) -> E:
        """The same after each attempt that has failed, `(ctx, error)`."""
        self.kind.hooks.add(When.ERROR, hook)
        return hook

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
        return SyncHandle(self._kind.handle(answer), self._bridge)
