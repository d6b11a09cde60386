"""Calls a handler and turns whatever comes of it into an Outcome."""

from __future__ import annotations

import asyncio

from taskyard.domain import points
from taskyard.domain.outcome import Failed, Outcome, Succeeded
from taskyard.domain.points import Point, reach
from taskyard.domain.state import Reason
from taskyard.engine.hooks import When
from taskyard.engine.job import Job, Stop


async def run_coroutine(job: Job) -> Outcome:
    kind = job.kind
    hooks = kind.hooks if kind.hooks.is_used else None
    value: object = None
    try:
        args, kwargs = job.arguments()
    except Exception as error:
        value, outcome = error, job.undecodable(error)
    else:
        if points.hooks:
            reach(Point.BEFORE_BODY)
        try:
            if hooks is not None:
                await hooks.call(When.BEFORE, job.context)
            value = await kind.function(*args, **kwargs)
            outcome = job.returned(value)
        except GeneratorExit:
            raise  # the loop itself is going
        except asyncio.CancelledError as error:
            if job.stop is None and _is_cancelled():
                job.stop = Stop.DRAIN  # not our doing: the loop is being shut down around us
            value, outcome = error, job.raised(error)
        except BaseException as error:
            value, outcome = error, job.raised(error)
        if points.hooks:
            reach(Point.AFTER_BODY)
    if hooks is not None and (about := _about(outcome, value)) is not None:
        try:
            await hooks.call(about[0], job.context, about[1])
        except GeneratorExit:
            raise
        except BaseException:
            return outcome  # a hook that is cancelled: how the body has ended is settled
    return outcome


def run_plain(job: Job) -> Outcome:
    hooks = job.kind.hooks if job.kind.hooks.is_used else None
    value: object = None
    try:
        args, kwargs = job.arguments()
    except Exception as error:
        value, outcome = error, job.undecodable(error)
    else:
        if points.hooks:
            reach(Point.BEFORE_BODY)
        try:
            if hooks is not None:
                hooks.call_blocking(When.BEFORE, job.context)
            value = job.kind.function(*args, **kwargs)
            outcome = job.overran() if job.stop is Stop.TIMEOUT else job.returned(value)
        except BaseException as error:
            value, outcome = error, job.raised(error)
        if points.hooks:
            reach(Point.AFTER_BODY)
    if hooks is not None and (about := _about(outcome, value)) is not None:
        try:
            hooks.call_blocking(about[0], job.context, about[1])
        except BaseException:
            return outcome
    return outcome


def _about(outcome: Outcome, value: object) -> tuple[When, object] | None:
    """Which hooks an outcome is for, and what they are told; `value` was returned or raised."""
    match outcome:
        case Succeeded():
            return When.AFTER, value
        case Failed(error, Reason.TIMEOUT):
            return When.ERROR, TimeoutError(error.message)
        case Failed(error):
            told = value if isinstance(value, BaseException) else ValueError(error.message)
            return When.ERROR, told
        case _:
            return None  # the task will be here again, or was not wanted any more


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
