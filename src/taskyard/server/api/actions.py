"""One action on all tasks that a filter finds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from enum import StrEnum
from typing import assert_never

import msgspec
from litestar import Router, post
from litestar.params import JSONBody

from taskyard.domain.errors import IllegalTransition, NotFound
from taskyard.domain.state import REVIVABLE, State
from taskyard.domain.task import TaskLine, TaskQuery, check_name
from taskyard.server import limits
from taskyard.server.asks import Actor, TheYard, operator
from taskyard.server.bodies import Strict
from taskyard.server.problems import Refusal
from taskyard.server.words import instant_of
from taskyard.yard import Yard


class Action(StrEnum):
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"


STATES = {
    Action.CANCEL: (State.PENDING, State.QUEUED, State.PAUSED, State.RUNNING),
    Action.PAUSE: (State.PENDING, State.QUEUED, State.RUNNING),
    Action.RESUME: (State.PAUSED,),
    Action.RETRY: tuple(sorted(REVIVABLE)),
}


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: State | None = None
    kind: str | None = None
    lane: str | None = None
    key: str | None = None
    since: datetime | None = None  # created then or later
    until: datetime | None = None  # created before

    def check(self) -> None:
        named = [("kind", self.kind), ("lane", self.lane), ("key", self.key)]
        for what, name in named:
            if name is not None:
                check_name(what, name)
        if self == TaskFilter():
            told = "say which tasks: a state, kind, lane, key or time of creation"
            raise Refusal(422, "no_filter", told, path="$.filter")

    def query(self, state: State) -> TaskQuery:
        return TaskQuery(
            state=state,
            kind=self.kind,
            lane=self.lane,
            key=self.key,
            since=instant_of(self.since, "$.filter.since"),
            until=instant_of(self.until, "$.filter.until"),
            limit=limits.MAX_PAGE,
        )


class ActOnTasks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`dry_run` only counts."""

    action: Action
    filter: TaskFilter
    dry_run: bool = False


class ActedOn(msgspec.Struct, frozen=True):
    matched: int  # that the filter found and whose state allows the action
    done: int
    more: bool  # there are others: ask again, or, of a dry run, the count goes on


@post(
    "/actions",
    opt=operator,
    status_code=200,
    dto=Strict[ActOnTasks],
    return_dto=None,
    summary="Act on all tasks that a filter finds",
)
async def act_on_tasks(yard: TheYard, actor: Actor, data: JSONBody[ActOnTasks]) -> ActedOn:
    """At most a thousand at once; `more` says whether to ask again. A dry run counts up to ten
    thousand. Those that have changed meanwhile are passed over."""
    data.filter.check()
    bound = limits.MAX_COUNTED if data.dry_run else limits.MAX_ACTED_ON
    matched = done = 0
    async for task in _matching(yard, data):
        if matched == bound:
            return ActedOn(matched, done, more=True)
        matched += 1
        if not data.dry_run:
            done += await _act(yard, data.action, task.id, actor)
    return ActedOn(matched, done, more=False)


async def _matching(yard: Yard, data: ActOnTasks) -> AsyncIterator[TaskLine]:
    wanted = data.filter
    for state in STATES[data.action]:
        if wanted.state not in (None, state):
            continue
        query = wanted.query(state)
        while True:
            page = await yard.page(query)
            for task in page.tasks:
                if task.asked != data.action:
                    yield task
            if page.next is None:
                break
            query = msgspec.structs.replace(query, after=page.next)


async def _act(yard: Yard, action: Action, task_id: str, actor: str) -> bool:
    try:
        match action:
            case Action.CANCEL:
                await yard.cancel(task_id, actor=actor)
            case Action.PAUSE:
                await yard.pause_task(task_id, actor=actor)
            case Action.RESUME:
                await yard.resume_task(task_id, actor=actor)
            case Action.RETRY:
                await yard.retry(task_id, actor=actor)
            case _:
                assert_never(action)
    except (NotFound, IllegalTransition):
        return False
    return True


routes = Router("/tasks", route_handlers=[act_on_tasks], tags=["tasks"])
