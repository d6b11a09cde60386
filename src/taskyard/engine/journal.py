"""What is logged of a task's life. The happy path is DEBUG, and costs a comparison if unseen."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from taskyard.domain.outcome import Died, Failed, Outcome, Paused, Verdict
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Enqueue, Enqueued, NewTask, Refused
from taskyard.engine.job import MAX_MESSAGE, MAX_STACK, Job
from taskyard.engine.log import logger
from taskyard.engine.redact import redacted
from taskyard.engine.veil import Veil

log = logger("task")
_plain = logging.getLogger("taskyard.task")

BAD = (Failed, Died)


def enqueued(tasks: Sequence[NewTask], answers: Sequence[Enqueue], **by: Any) -> None:
    """These were to be saved, and this was the answer."""
    if not _plain.isEnabledFor(logging.INFO):
        return
    for task, answer in zip(tasks, answers, strict=True):
        about = {"kind": task.kind, "lane": task.lane, **by}
        match answer:
            case Enqueued(id):
                if _plain.isEnabledFor(logging.DEBUG):
                    args = redacted(task.payload)
                    log.debug("enqueue", task=id, priority=task.priority, args=args, **about)
            case Refused(reason):
                log.info("enqueue refused", why=reason, **about)
            case _:
                log.debug("enqueue", task=answer.id, duplicate=True, **about)


def is_heard() -> bool:
    """Whether anybody hears of bodies that start, and of those that end well."""
    return _plain.isEnabledFor(logging.DEBUG)


def claimed(job: Job) -> None:
    """Its body starts."""
    waited = round(job.claimed.waited, 3)
    log.debug("claim", **_about(job), lane=job.claimed.lane, waited=waited, style=job.style.value)


def finished(job: Job, outcome: Outcome, verdict: Verdict) -> None:
    """Its body has ended, and this is to become of the task."""
    if isinstance(outcome, BAD):
        level = log.error if verdict.state is State.FAILED else log.warning
        veil, error = Veil.of(job.claimed.payload), outcome.error
        message = veil.text(error.message, cut=len(error.message) >= MAX_MESSAGE)
        stack = veil.text(error.stack, cut=len(error.stack) >= MAX_STACK)
        level(
            "failed",
            **_about(job),
            state=verdict.state.value,
            reason=(outcome.reason if isinstance(outcome, Failed) else Reason.LOST).value,
            error=f"{error.type}: {message}",
            seconds=round(job.ran, 6),
            **({} if verdict.delay is None else {"again_in": verdict.delay}),
            **({"stack": stack} if stack else {}),
        )
    elif is_heard():
        reason = "paused" if isinstance(outcome, Paused) else verdict.reason.value
        log.debug(
            "finish",
            **_about(job),
            state=verdict.state.value,
            reason=reason,
            seconds=round(job.ran, 6),
        )


def dropped(job: Job) -> None:
    """Its body has ended, and nobody wants to know how: the attempt is another's by now."""
    log.info("a lost attempt has ended", **_about(job), seconds=round(job.ran, 6))


def _about(job: Job) -> dict[str, Any]:
    return {"task": job.claimed.id, "kind": job.kind.name, "attempt": job.claimed.attempt}
