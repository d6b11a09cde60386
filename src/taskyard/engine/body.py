"""Calls a handler and turns whatever comes of it into an Outcome."""

from __future__ import annotations

import asyncio

from taskyard.domain.outcome import Outcome
from taskyard.domain.points import Point, reach
from taskyard.engine.job import Job, Stop


async def run_coroutine(job: Job) -> Outcome:
    try:
        args, kwargs = job.arguments()
    except Exception as error:
        return job.undecodable(error)
    reach(Point.BEFORE_BODY)
    try:
        outcome = job.returned(await job.kind.function(*args, **kwargs))
    except GeneratorExit:
        raise  # the loop itself is going
    except asyncio.CancelledError as error:
        if job.stop is None and _is_cancelled():
            job.stop = Stop.DRAIN  # not our doing: the loop is being shut down around us
        outcome = job.raised(error)
    except BaseException as error:
        outcome = job.raised(error)
    reach(Point.AFTER_BODY)
    return outcome


def run_plain(job: Job) -> Outcome:
    try:
        args, kwargs = job.arguments()
    except Exception as error:
        return job.undecodable(error)
    reach(Point.BEFORE_BODY)
    try:
        value = job.kind.function(*args, **kwargs)
        outcome = job.overran() if job.stop is Stop.TIMEOUT else job.returned(value)
    except BaseException as error:
        outcome = job.raised(error)
    reach(Point.AFTER_BODY)
    return outcome


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
