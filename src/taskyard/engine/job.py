"""One attempt while it is in this worker's hands."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from taskyard.domain.classify import Advice, Classifier, disk_full, http_status, retry_after
from taskyard.domain.clock import LONGEST
from taskyard.domain.errors import Cancelled, Fatal, InvalidOption
from taskyard.domain.outcome import (
    Failed,
    Outcome,
    Paused,
    Released,
    Snoozed,
    Stopped,
    Succeeded,
)
from taskyard.domain.state import Reason
from taskyard.domain.task import MAX_RESULT_BYTES, Claimed, TaskError
from taskyard.engine.context import Context, PauseSignal
from taskyard.engine.registry import Kind, Style
from taskyard.engine.tracing import Run

MAX_MESSAGE = 4_000
MAX_STACK = 20_000
MAX_REASON = 200


_NO_RESULT = Succeeded()


class Stop(StrEnum):
    """Why a body is being stopped."""

    CANCEL = "cancel"
    PAUSE = "pause"  # it did not come to a checkpoint in time
    TIMEOUT = "timeout"
    DRAIN = "drain"
    LOST = "lost"  # the attempt is no longer accepted: whatever comes of it is dropped


class Snooze(msgspec.Struct, frozen=True):
    """Returned by a handler: not now, in `delay` seconds; not charged."""

    delay: float

    def __post_init__(self) -> None:
        if not isinstance(self.delay, int | float):
            raise InvalidOption(f"Snooze takes a delay in seconds, not {self.delay!r}")
        if not 0 <= self.delay <= LONGEST:
            raise InvalidOption(
                "Snooze needs a delay of 0 seconds or more and at most 100 years, "
                f"not {self.delay:g}"
            )


def _not_started() -> None:
    pass


def _heard(_wanted: bool) -> None:
    """The body's own context has been told."""


class Job(msgspec.Struct, eq=False):
    """A claimed task, its kind, and how it is being stopped, if it is.

    A struct because one is made for every body, and a struct is made in a third of the time.
    """

    claimed: Claimed
    kind: Kind
    make_context: Callable[[Claimed], Context]
    taken: float = msgspec.field(default_factory=time.monotonic)
    is_alone: bool = False  # a suspect: in a process of its own whatever its kind
    started: float | None = None
    ran: float = 0.0  # seconds, when it has ended
    span: Run | None = None  # if it is traced
    deadline: float = float("inf")
    stop: Stop | None = None
    asked: float = 0.0
    cancel: Callable[[], None] = _not_started
    tell_pause: Callable[[bool], None] = _heard
    _context: Context | None = None

    @property
    def context(self) -> Context:
        """Made when somebody wants it: many handlers, and most bodies, do not.

        Not from two threads at once: a body's own thread must find it made.
        """
        if self._context is None:
            self._context = self.make_context(self.claimed)
        return self._context

    @property
    def style(self) -> Style:
        """How this one runs."""
        return Style.PROCESS if self.is_alone else self.kind.style

    def begin(self) -> float:
        """Answers when it must have ended."""
        self.started = started = time.monotonic()
        self.deadline = deadline = started + self.claimed.timeout
        return deadline

    def ask(self, stop: Stop) -> None:
        """Ask the body to stop. The first reason stays, but a lost attempt is lost."""
        if self.stop is None or stop is Stop.LOST:
            self.stop = stop
        self.asked = time.monotonic()
        self.context.ask_to_stop()
        self.cancel()

    def want_pause(self, wanted: bool) -> None:
        """Let the body end at its next checkpoint, or go on after all."""
        self.context.ask_to_pause(wanted)
        self.tell_pause(wanted)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        kind, claimed = self.kind, self.claimed
        args = (self.context,) if kind.signature.takes_context else ()
        payload = claimed.payload
        if claimed.kind != kind.route:
            payload = kind.versions.brought_up(claimed.kind, payload)
        return args, kind.signature.decode(payload)

    def returned(self, value: object) -> Outcome:
        """The body ran to its end. What it did is done, also if it had been asked to stop."""
        if value is None:
            return _NO_RESULT
        if isinstance(value, Snooze):
            return Snoozed(value.delay)
        try:
            encoded = msgspec.json.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return _unusable(f"the result cannot be written as JSON: {error}")
        if len(encoded) > MAX_RESULT_BYTES:
            return _unusable(f"the result is {len(encoded):,} bytes, over {MAX_RESULT_BYTES:,}")
        return Succeeded(encoded.decode())

    def raised(self, error: BaseException) -> Outcome:
        """Always an outcome: a job that got none would keep its slot and its keys for ever."""
        try:
            return self._judged(error)
        except Exception as second:
            text = f"(it cannot be looked at: {type(second).__name__})"
            return Failed(TaskError(type(error).__name__, text))

    def _judged(self, error: BaseException) -> Outcome:
        if isinstance(error, asyncio.CancelledError) and self.stop is not None:
            return self.stopped()
        if _is_pause(error):
            return Paused() if self.stop is None else self.stopped()
        if isinstance(error, Cancelled):
            return Stopped(Reason.BODY)
        advice = _advise(self.kind.classifier, error)
        given_up = advice is Advice.FATAL and isinstance(error, Fatal)
        reason = Reason.FATAL if given_up else Reason.ERROR
        full = advice is Advice.FATAL and disk_full(error) is not None
        return Failed(
            describe(error),
            reason,
            retry=advice is Advice.RETRY,
            after=retry_after(error),
            pauses_lane=f"disk full: {_text(error)[:MAX_REASON]}" if full else None,
        )

    def stopped(self) -> Outcome:
        """The body has ended because it was asked to."""
        match self.stop:
            case Stop.CANCEL:
                return Stopped(Reason.OPERATOR)
            case Stop.PAUSE:
                return Paused()
            case Stop.TIMEOUT:
                return self.overran()
            case _:
                return Released()

    def overran(self) -> Outcome:
        seconds = self.claimed.timeout
        error = TaskError("Timeout", f"it ran longer than its {seconds:g} s")
        return Failed(error, Reason.TIMEOUT)

    def undecodable(self, error: Exception) -> Outcome:
        return Failed(
            TaskError("Undecodable", f"the payload does not fit {self.kind.name}: {error}"),
            Reason.UNDECODABLE,
            retry=False,
        )


def _is_pause(error: BaseException) -> bool:
    """Also of a body that came to its checkpoint inside a TaskGroup."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_pause(one) for one in error.exceptions)
    return isinstance(error, PauseSignal)


def _unusable(message: str) -> Outcome:
    """The work was done: doing it again would not make its result storable."""
    return Failed(TaskError("UnusableResult", message), Reason.ERROR, retry=False)


def _advise(classifier: Classifier, error: BaseException) -> Advice:
    """A user's rule that breaks must not take the worker with it."""
    try:
        return classifier.advise(error)
    except Exception:
        return Advice.RETRY


def describe(error: BaseException) -> TaskError:
    status = http_status(error)
    name = type(error).__name__ if status is None else f"{type(error).__name__} {status}"
    stack = "".join(traceback.format_exception(error))
    return TaskError(name, _text(error)[:MAX_MESSAGE], stack[-MAX_STACK:])


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"
