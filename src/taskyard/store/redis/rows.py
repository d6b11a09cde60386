"""From what the scripts store and answer to the values of the domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from taskyard.domain.clock import seconds
from taskyard.domain.errors import StoreCorrupt
from taskyard.domain.node import Lease
from taskyard.domain.outcome import Verdict
from taskyard.domain.state import Reason, State
from taskyard.domain.task import (
    Claimed,
    FailedAttempt,
    OnFailure,
    Progress,
    Task,
    TaskError,
    TaskLine,
)
from taskyard.domain.trace import Origin

# Lua stores `false` for what is not there, hence Any where a value may be missing.


class Definition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What never changes of a task; the order is that of lua/enqueue.lua."""

    id: str
    kind: str
    lane: str
    payload: str
    group: str
    dedup: Any
    until: Any
    requires: tuple[str, ...]
    max_charged: int
    timeout: float
    created_at: int
    trace: str | None = None


class _ListedDefinition(Definition, array_like=True, frozen=True, gc=False):
    """The same, with a payload that may be left out."""

    payload: Any


class Life(msgspec.Struct, array_like=True, frozen=True):
    """What changes; the order is that of lua/parts/tasks.lua."""

    plain: Any
    attempt: int
    charged: int
    losses: int
    max_charged: int
    priority: int
    stream: str
    place: Any  # rank and seq, fourteen hexadecimal digits each; else priority and number
    run_at: Any  # else the time of its creation
    keys: Any
    state: State
    reason: Reason
    lease: Any
    request: Any
    node: Any
    started_at: Any
    ended_at: Any
    parked_on: Any
    asked: Any
    deadline: Any
    dedup: Any
    dedup_kept: Any
    waits_for: Any = False
    on_failure: Any = False


class _Failure(msgspec.Struct, array_like=True, frozen=True):
    attempt: int
    reason: Reason
    at: int
    started_at: Any
    node: Any
    error: TaskError


class _Taken(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The beginning of a life: what its worker needs."""

    plain: Any
    attempt: int
    charged: int
    losses: int
    max_charged: int
    priority: int
    stream: str
    place: Any
    run_at: Any


_definition = msgspec.msgpack.Decoder(Definition).decode
_listed = msgspec.msgpack.Decoder(_ListedDefinition).decode
_life = msgspec.msgpack.Decoder(Life).decode
_progress = msgspec.msgpack.Decoder(Progress).decode
_failures = msgspec.msgpack.Decoder(list[_Failure]).decode
_ids = msgspec.msgpack.Decoder(tuple[str, ...]).decode
_type_and_message = msgspec.msgpack.Decoder(tuple[str, str]).decode
_taken = msgspec.msgpack.Decoder(_Taken).decode


_DIGITS = 14  # of a task's number, hexadecimal
_UNREADABLE = (msgspec.MsgspecError, TypeError, ValueError)


def claimed(answer: Sequence[Any], lease: Lease, now: int) -> tuple[list[Claimed], list[Verdict]]:
    """From what `describe` in lua/parts/claiming.lua answers.

    A row that cannot be read must stop no worker: it becomes a verdict that ends its task.
    """
    numbers, lives, definitions, saved = answer
    checkpoints = {int(no, 16): text for no, text in zip(saved[::2], saved[1::2], strict=True)}
    tasks: list[Claimed] = []
    unreadable: list[Verdict] = []
    for no, row, definition in zip(_numbers(numbers), _rows(lives), definitions, strict=True):
        try:
            task = _definition(definition)
        except _UNREADABLE as error:
            unreadable.append(_undecodable(no, row, lease, error))
            continue
        waited = now - (row.run_at or task.created_at)
        checkpoint = checkpoints.get(no) if checkpoints else None
        tasks.append(
            Claimed(
                no,
                task.id,
                task.kind,
                task.lane,
                row.attempt,
                row.charged,
                task.max_charged,
                task.timeout,
                task.payload,
                lease,
                row.losses,
                seconds(waited) if waited > 0 else 0.0,
                None if checkpoint is None else checkpoint.decode(),
                None if task.trace is None else _origin(task, row),
            )
        )
    return tasks, unreadable


def number_of_numbers(text: bytes) -> int:
    return len(text) // _DIGITS


def _numbers(text: bytes) -> list[int]:
    return [int(text[at : at + _DIGITS], 16) for at in range(0, len(text), _DIGITS)]


def _rows(lives: Sequence[Any]) -> list[_Taken]:
    """Each life is followed by how many tasks in a row have it."""
    rows: list[_Taken] = []
    for life, count in zip(lives[::2], lives[1::2], strict=True):
        rows += [_taken(life)] * count
    return rows


def _origin(task: Definition, row: _Taken) -> Origin:
    assert task.trace is not None
    return Origin(task.trace, not row.run_at or row.run_at <= task.created_at)


def _undecodable(no: int, row: _Taken, lease: Lease, error: Exception) -> Verdict:
    return Verdict(
        no=no,
        id=f"#{no}",
        attempt=row.attempt,
        lease=lease,
        state=State.FAILED,
        reason=Reason.UNDECODABLE,
        charge=1,
        error=TaskError("StoreCorrupt", f"what is stored of this task cannot be read: {error}"),
    )


@contextmanager
def reading() -> Iterator[None]:
    """What is stored and makes no sense is the store's fault."""
    try:
        yield
    except _UNREADABLE as error:
        raise StoreCorrupt(
            f"what Redis keeps of a task cannot be read ({error}); restore the server from a backup"
        ) from error


def whole_tasks(answer: Sequence[Any]) -> Iterator[Task]:
    """From what lua/parts/reading.lua answers."""
    for row in zip(*answer, strict=True):
        with reading():
            task = _task(row)
        yield task


def lines(answer: Sequence[Any]) -> Iterator[TaskLine]:
    """From what lua/page.lua answers."""
    for row in zip(*answer, strict=True):
        with reading():
            line = _line(row)
        yield line


def _line(row: Sequence[Any]) -> TaskLine:
    no, definition, life, progress, error = row
    made, now = _listed(definition), _life(life)
    shows = error is not None and now.state in (State.FAILED, State.PENDING)
    return TaskLine(
        no=int(no, 16),
        id=made.id,
        kind=made.kind,
        lane=made.lane,
        priority=now.priority,
        state=now.state,
        reason=now.reason,
        keys=tuple(now.keys or ()),
        group=made.group,
        attempt=now.attempt,
        created_at=made.created_at,
        run_at=now.run_at or made.created_at,
        deadline=given(now.deadline),
        started_at=given(now.started_at),
        ended_at=given(now.ended_at),
        node=given(now.node),
        asked=given(now.asked),
        parked_on=given(now.parked_on),
        progress=_progress(progress) if progress else None,
        error=TaskError(*_type_and_message(error)) if shows else None,
        payload=given(made.payload),
    )


def last_error(failures: bytes | None) -> TaskError | None:
    """Of the log of a task's failed attempts."""
    if failures is None:
        return None
    with reading():
        return _failures(failures)[-1].error


def _task(row: Sequence[Any]) -> Task:
    no, definition, life, result, progress, failures, checkpoint, needs = row
    made, now = _definition(definition), _life(life)
    log = tuple(_failed_attempt(failure) for failure in _failures(failures)) if failures else ()
    return Task(
        no=int(no, 16),
        id=made.id,
        kind=made.kind,
        lane=made.lane,
        priority=now.priority,
        seq=int(now.place[14:] if now.place else no, 16),
        payload=made.payload,
        state=now.state,
        reason=now.reason,
        keys=tuple(now.keys or ()),
        group=made.group,
        dedup=made.dedup or None,
        requires=made.requires,
        depends_on=_ids(needs) if needs else (),
        on_failure=OnFailure(now.on_failure or OnFailure.CANCEL),
        waits_for=now.waits_for or 0,
        attempt=now.attempt,
        charged=now.charged,
        max_charged=made.max_charged,
        losses=now.losses,
        timeout=made.timeout,
        created_at=made.created_at,
        run_at=now.run_at or made.created_at,
        deadline=given(now.deadline),
        started_at=given(now.started_at),
        ended_at=given(now.ended_at),
        node=given(now.node),
        asked=given(now.asked),
        parked_on=given(now.parked_on),
        progress=_progress(progress) if progress else None,
        checkpoint=checkpoint.decode() if checkpoint is not None else None,
        result=result.decode() if result is not None else None,
        # The error of a task that failed is that of its last attempt.
        error=log[-1].error if log and now.state in (State.FAILED, State.PENDING) else None,
        failures=log,
        trace=made.trace,
    )


def _failed_attempt(row: _Failure) -> FailedAttempt:
    return FailedAttempt(
        row.attempt, row.reason, row.at, given(row.started_at), given(row.node), row.error
    )


def given(value: Any) -> Any:
    """None for what is not there."""
    return None if value is False else value


def or_false(value: Any) -> Any:
    """As Lua stores what is not there."""
    return False if value is None else value
