"""Creating tasks: one, safe to repeat, or many at once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, Router, post
from litestar.openapi import ResponseSpec
from litestar.params import HeaderParameter, JSONBody

from taskyard.domain.errors import TaskRefused, TaskyardError
from taskyard.domain.task import (
    DEFAULT_LANE,
    DEFAULT_PRIORITY,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT,
    MAX_NAME,
    Clash,
    Duplicate,
    Enqueue,
    Enqueued,
    NewTask,
    OnFailure,
    Refused,
    Until,
    new_task_id,
)
from taskyard.domain.trace import trace_in
from taskyard.engine.redact import HIDDEN
from taskyard.engine.tracing import below
from taskyard.options import Options, instant
from taskyard.server import limits
from taskyard.server.asks import TheYard, operator
from taskyard.server.bodies import Strict, check_depth
from taskyard.server.problems import Refusal, of_taskyard
from taskyard.server.words import is_hidden_in
from taskyard.yard import Yard

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]


class CreateTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out is as the kind declares it. docs/guides/enqueue.md has all options."""

    kind: Name
    params: dict[str, Any] = {}
    id: Name | None = None
    lane: Name | None = None
    priority: Annotated[int, msgspec.Meta(ge=1, le=10)] | None = None
    keys: list[Name] = []
    if_key_held: Literal["wait", "refuse"] | None = None
    group: str | None = None
    dedup: Name | None = None
    dedup_until: Until | None = None
    on_duplicate: Clash | None = None
    depends_on: list[Name] = []
    on_failure: OnFailure | None = None
    requires: Annotated[list[Name], msgspec.Meta(max_length=limits.MAX_REQUIRED)] = []
    timeout: float | None = None
    retries: int | None = None
    delay: float | None = None
    run_at: datetime | None = None
    deadline: datetime | None = None


class CreateTasks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: Annotated[list[CreateTask], msgspec.Meta(min_length=1, max_length=limits.MAX_BULK)]


class Created(msgspec.Struct, frozen=True, omit_defaults=True):
    """`duplicate`: nothing was stored, for this task has the id or keeps the dedup key."""

    id: str | None
    outcome: str  # enqueued, duplicate or, of several, refused
    changed: bool = False  # the other task got these parameters or this time
    reason: str | None = None


class CreatedTasks(msgspec.Struct, frozen=True):
    items: list[Created]


IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(name="Idempotency-Key", required=False, min_length=1, max_length=1000),
]


TraceParent = Annotated[str | None, HeaderParameter(name="traceparent", required=False)]


THERE_ALREADY = {
    200: ResponseSpec(Created, generate_examples=False, description="It was there already")
}


@post(
    "/",
    opt=operator,
    dto=Strict[CreateTask],
    return_dto=None,
    responses=THERE_ALREADY,
    summary="Create a task",
)
async def create_task(
    yard: TheYard,
    data: JSONBody[CreateTask],
    idempotency_key: IdempotencyKey = None,
    traceparent: TraceParent = None,
) -> Response[Created]:
    """201: it is stored, and survives from now on. 200: it was there already, so that a request
    whose answer was lost can simply be sent again, with an `id` or an `Idempotency-Key`. A
    `traceparent` (W3C) is the span it comes from."""
    if idempotency_key is not None:
        if data.id is not None:
            raise Refusal(422, "invalid", "give either an id or an Idempotency-Key, not both")
        data = msgspec.structs.replace(data, id=id_of(idempotency_key))
    return await create(yard, data, trace_in(traceparent))


async def create(yard: Yard, asked: CreateTask, trace: str | None = None) -> Response[Created]:
    [answer] = await yard.enqueue(*below([await new_task(yard, asked)], trace))
    if isinstance(answer, Refused):
        raise TaskRefused(answer.reason)
    return Response(_told(answer), status_code=201 if isinstance(answer, Enqueued) else 200)


@post(
    "/bulk",
    opt=operator,
    dto=Strict[CreateTasks],
    return_dto=None,
    summary="Create many tasks in one step",
)
async def create_tasks(
    yard: TheYard, data: JSONBody[CreateTasks], traceparent: TraceParent = None
) -> CreatedTasks:
    """If one of them is wrong, none is created. What a full lane or a held key refuses is told by
    its place, and the others are stored."""
    tasks = below(await new_tasks(yard, data.tasks), trace_in(traceparent))
    return CreatedTasks([_told(answer) for answer in await yard.enqueue(*tasks)])


async def new_task(yard: Yard, asked: CreateTask) -> NewTask:
    return _checked(yard, asked, await _kinds_elsewhere(yard, [asked]))


async def new_tasks(yard: Yard, asked: Sequence[CreateTask]) -> list[NewTask]:
    """Each is told with its place in the request if it is wrong."""
    elsewhere = await _kinds_elsewhere(yard, asked)
    made = []
    for place, one in enumerate(asked):
        try:
            made.append(_checked(yard, one, elsewhere))
        except (TaskyardError, Refusal) as error:
            said = error.problem if isinstance(error, Refusal) else of_taskyard(error)
            path = f"$.tasks[{place}]" + (said.path or "$")[1:]
            raise Refusal(said.status, said.code, said.detail, path=path) from None
    return made


def _checked(yard: Yard, asked: CreateTask, elsewhere: frozenset[str]) -> NewTask:
    """Parameters of a kind that is known only elsewhere are checked there, when it runs."""
    check_depth(asked.params)
    payload = msgspec.json.encode(asked.params).decode()
    if HIDDEN in payload and is_hidden_in(asked.params):
        raise Refusal(422, "hidden", f"{HIDDEN} stands for a secret; say it anew", path="$.params")
    if asked.kind not in yard.registry and asked.kind in elsewhere:
        return _unchecked(asked, payload)
    options = yard.kind(asked.kind).options(
        id=asked.id,
        lane=asked.lane,
        priority=asked.priority,
        keys=asked.keys,
        if_key_held=asked.if_key_held,
        group=asked.group,
        dedup=asked.dedup,
        dedup_until=asked.dedup_until,
        on_duplicate=asked.on_duplicate,
        depends_on=asked.depends_on,
        on_failure=asked.on_failure,
        requires=asked.requires,
        timeout=asked.timeout,
        retries=asked.retries,
        delay=asked.delay,
        run_at=asked.run_at,
        deadline=asked.deadline,
    )
    return options.from_payload(payload)


def _unchecked(asked: CreateTask, payload: str) -> NewTask:
    said = Options(
        dedup=asked.dedup, dedup_until=asked.dedup_until, on_duplicate=asked.on_duplicate
    )
    task = NewTask(
        kind=asked.kind,
        payload=payload,
        id=asked.id or new_task_id(),
        lane=asked.lane or DEFAULT_LANE,
        priority=DEFAULT_PRIORITY if asked.priority is None else asked.priority,
        keys=tuple(asked.keys),
        refuse_if_held=asked.if_key_held == "refuse",
        group=asked.group or "",
        dedup=said.as_dedup(),
        depends_on=tuple(asked.depends_on),
        on_failure=asked.on_failure or OnFailure.CANCEL,
        requires=tuple(sorted(asked.requires)),
        max_charged=(DEFAULT_RETRIES if asked.retries is None else asked.retries) + 1,
        timeout=DEFAULT_TIMEOUT if asked.timeout is None else asked.timeout,
        delay=asked.delay,
        run_at=instant("run_at", asked.run_at),
        deadline=instant("deadline", asked.deadline),
    )
    task.check()
    return task


def id_of(key: str) -> str:
    """The id of the task that an idempotency key stands for."""
    if 0 < len(key) <= MAX_NAME and key.isprintable():
        return key
    return f"key:{hashlib.sha256(key.encode()).hexdigest()}"


async def _kinds_elsewhere(yard: Yard, asked: Sequence[CreateTask]) -> frozenset[str]:
    """What workers of other programs run, if one of these is not known here."""
    if all(one.kind in yard.registry for one in asked):
        return frozenset()
    return frozenset(kind for node in await yard.nodes() for kind in node.kinds)


def _told(answer: Enqueue) -> Created:
    match answer:
        case Enqueued(id=task_id):
            return Created(task_id, "enqueued")
        case Duplicate(id=task_id, changed=changed):
            return Created(task_id, "duplicate", changed)
        case Refused(reason=reason):
            return Created(None, "refused", reason=reason)


routes = Router("/tasks", route_handlers=[create_task, create_tasks], tags=["tasks"])
