"""Spans of OpenTelemetry: one for what is enqueued, one around each attempt.

The only module that knows OpenTelemetry, and it brings none: a program that traces has imported the
API and set a provider. In any other the question costs a look at `sys.modules`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from taskyard.domain.task import Claimed, Duplicate, Enqueue, Enqueued, NewTask, Refused, TaskError
from taskyard.domain.trace import is_trace
from taskyard.engine.redact import redacted_text
from taskyard.engine.veil import Veil
from taskyard.engine.versions import split

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, Tracer, TracerProvider

_API = "opentelemetry.trace"
_SCOPE = "taskyard"
_FLUSH = 2_000  # milliseconds

_known: tuple[TracerProvider, Tracer | None] | None = None  # the last one that was met

if "OTEL_PYTHON_TRACER_PROVIDER" in os.environ:  # names one that the API loads when it is asked
    with suppress(ImportError):
        import opentelemetry.trace  # noqa: F401 - for others to find


def tracer() -> Tracer | None:
    """None unless this program traces."""
    api = sys.modules.get(_API)
    return None if api is None else _tracer_of(api)


def _tracer_of(api: ModuleType) -> Tracer | None:
    global _known  # noqa: PLW0603 - a provider makes a new tracer at every call
    if not hasattr(api, "get_tracer_provider"):
        return None  # another thread is importing it
    provider, known = api.get_tracer_provider(), _known
    if known is None or known[0] is not provider:
        nothing = isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider)
        known = _known = provider, None if nothing else provider.get_tracer(_SCOPE)
    return known[1]


# --- what is enqueued ---


async def enqueue(
    tasks: Sequence[NewTask],
    save: Callable[[Sequence[NewTask]], Awaitable[list[Enqueue]]],
    through: Tracer,
) -> list[Enqueue]:
    with Sending(tasks, through) as sending:
        return sending.answered(await save(sending.tasks))


class Sending:
    """A call that enqueues: one span, however many tasks there are; each carries it.

    Tasks that bring a trace of their own, as those of a request over HTTP do, have one below that,
    unless a span is current here.
    """

    def __init__(self, tasks: Sequence[NewTask], through: Tracer) -> None:
        above = [task.trace for task in tasks] if current() is None else [None] * len(tasks)
        groups: dict[str | None, list[NewTask]] = {}
        for trace, task in zip(above, tasks, strict=True):
            groups.setdefault(trace, []).append(task)
        self._spans = {trace: _sent(group, trace, through) for trace, group in groups.items()}
        traces = {trace: _trace_of(span) for trace, span in self._spans.items()}
        self.tasks = [
            msgspec.structs.replace(task, trace=traces[trace])
            for trace, task in zip(above, tasks, strict=True)
        ]

    def answered(self, answers: list[Enqueue]) -> list[Enqueue]:
        if len(answers) == 1:
            [span] = self._spans.values()
            [answer] = answers
            span.set_attribute("taskyard.answer", _word(answer))
            if not isinstance(answer, Refused):
                span.set_attribute("messaging.message.id", answer.id)
        return answers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        for span in self._spans.values():
            if error is not None:
                _record(span, type(error).__name__, redacted_text(str(error)))
            span.end()


def _sent(tasks: Sequence[NewTask], trace: str | None, through: Tracer) -> Span:
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.trace import SpanKind, set_span_in_context  # noqa: PLC0415

    kinds, lanes = {split(task.kind)[0] for task in tasks}, {task.lane for task in tasks}
    about: dict[str, str | int] = {
        "messaging.system": "taskyard",
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
    }
    if len(tasks) != 1:
        about["messaging.batch.message_count"] = len(tasks)
    if len(lanes) == 1:
        about["messaging.destination.name"] = min(lanes)
    if len(kinds) == 1:
        about["taskyard.kind"] = min(kinds)
    name = f"enqueue {min(kinds)}" if len(kinds) == 1 else "enqueue"
    remote = _remote(trace)
    above = None if remote is None else set_span_in_context(_stand_in(remote), Context())
    return through.start_span(name, above, kind=SpanKind.PRODUCER, attributes=about)


def _word(answer: Enqueue) -> str:
    match answer:
        case Enqueued():
            return "enqueued"
        case Duplicate():
            return "duplicate"
        case Refused():
            return "refused"


def below(tasks: Sequence[NewTask], trace: str | None) -> Sequence[NewTask]:
    """The same tasks; those without a trace have this one."""
    if trace is None:
        return tasks
    replace = msgspec.structs.replace
    return [task if task.trace is not None else replace(task, trace=trace) for task in tasks]


# --- attempts ---


class Run:
    """The span of an attempt."""

    __slots__ = ("_claimed", "_span", "trace")

    def __init__(self, claimed: Claimed, span: Span) -> None:
        self._claimed = claimed
        self._span = span
        self.trace = _trace_of(span)

    def current(self) -> AbstractContextManager[object]:
        """Makes it the current span of this task or thread."""
        from opentelemetry.trace import use_span  # noqa: PLC0415

        return use_span(self._span, record_exception=False, set_status_on_exception=False)

    def end(self, how: str, error: TaskError | None = None) -> None:
        self._span.set_attribute("taskyard.outcome", how)
        if error is not None:
            veil = Veil.of(self._claimed.payload)
            message, stack = (
                veil.text(redacted_text(text), cut=True) for text in (error.message, error.stack)
            )
            _record(self._span, error.type, message, stack)
        self._span.end()


def run(claimed: Claimed) -> Run | None:
    """The span of an attempt that begins now; None unless this program traces.

    The first attempt of a task that was due at once is a child of the span that enqueued it. Any
    other begins a trace of its own and has a link to it: else a retry after a day would make
    traces that never end.
    """
    through = tracer()
    if through is None:
        return None
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.trace import Link, SpanKind, set_span_in_context  # noqa: PLC0415

    kind = split(claimed.kind)[0]
    origin = claimed.origin
    remote = None if origin is None else _remote(origin.trace)
    above, links = Context(), list[Link]()
    if origin is not None and remote is not None:
        if origin.at_once and claimed.attempt == 1:
            above = set_span_in_context(_stand_in(remote), above)
        else:
            links.append(Link(remote))
    about: dict[str, str | int | float] = {
        "messaging.system": "taskyard",
        "messaging.operation.type": "process",
        "messaging.operation.name": "run",
        "messaging.destination.name": claimed.lane,
        "messaging.message.id": claimed.id,
        "taskyard.kind": kind,
        "taskyard.attempt": claimed.attempt,
        "taskyard.waited": claimed.waited,
    }
    span = through.start_span(
        f"run {kind}", above, kind=SpanKind.CONSUMER, attributes=about, links=links
    )
    return Run(claimed, span)


def within(trace: str | None) -> AbstractContextManager[object]:
    """Spans that begin here are below this one, which is another process's."""
    remote = _remote(trace) if _API in sys.modules else None
    if remote is None:
        return nullcontext()
    from opentelemetry.trace import use_span  # noqa: PLC0415

    return use_span(_stand_in(remote))


def flush() -> None:
    """Have what has ended sent: this process is about to leave without its exit handlers."""
    if tracer() is not None and _known is not None:
        send = getattr(_known[0], "force_flush", None)
        if send is not None:
            send(_FLUSH)


# --- contexts ---


def current() -> str | None:
    """The span that is current here."""
    api = sys.modules.get(_API)
    span: Span | None = None if tracer() is None or api is None else api.get_current_span()
    return None if span is None else _trace_of(span)


def _trace_of(span: Span) -> str | None:
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _remote(trace: str | None) -> SpanContext | None:
    if trace is None or not is_trace(trace):
        return None
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415

    _, trace_id, span_id, flags = trace.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))


def _stand_in(context: SpanContext) -> Span:
    from opentelemetry.trace import NonRecordingSpan  # noqa: PLC0415

    return NonRecordingSpan(context)


def _record(span: Span, kind: str, message: str, stack: str = "") -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415

    about = {"exception.type": kind, "exception.message": message}
    span.add_event("exception", {**about, "exception.stacktrace": stack} if stack else about)
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR, f"{kind}: {message}")
