"""Kinds that look at the current span. A process that is told where spans go traces: a worker of
its own, or the child of an isolated body, which imports this module.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from taskyard import Context, Retry, Snooze, Yard

URL = os.environ.get("TASKYARD_TEST_URL", "sqlite://:memory:")
SPANS = os.environ.get("TASKYARD_TEST_SPANS")

yard = Yard(URL)


class ToFile(SpanExporter):
    """A line for each span, whole: several processes write to one file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._path.open("a") as file:
            file.write("".join(json.dumps(json.loads(span.to_json())) + "\n" for span in spans))
        return SpanExportResult.SUCCESS


if SPANS is not None:
    _provider = TracerProvider()
    _provider.add_span_processor(BatchSpanProcessor(ToFile(SPANS)))
    trace.set_tracer_provider(_provider)


def here() -> str:
    """The id of the current span."""
    return f"0x{trace.get_current_span().get_span_context().span_id:016x}"


def inside() -> str:
    """The id of the span around a span of the body's own."""
    around = here()
    with trace.get_tracer("body").start_as_current_span("inside"):
        return around


@yard.task()
async def coroutine() -> str:
    await asyncio.sleep(0)
    return inside()


@yard.task()
async def quick() -> str:
    return inside()


@yard.task()
def thread() -> str:
    return inside()


@yard.task(isolate=True)
def isolated() -> str:
    return inside()


@yard.task(isolate=True)
async def isolated_coroutine() -> str:
    return inside()


@yard.task(retry=Retry.fixed(1, delay=0.0))
async def second_time(ctx: Context) -> None:
    if ctx.attempt == 1:
        raise ConnectionError("gone")


@yard.task(retry=Retry.never())
async def login(user: str, password: str) -> None:
    raise PermissionError(f"no {user} at https://{user}:{password}@host with password={password}")


@yard.task(retry=Retry.never(), isolate=True)
def isolated_login(user: str, password: str) -> None:
    raise PermissionError(f"no {user} with {password}")


@yard.task()
async def snoozing(ctx: Context) -> Snooze | None:
    return Snooze(0.0) if ctx.attempt == 1 else None


@yard.task()
async def parent(ctx: Context) -> str:
    [answer] = await ctx.enqueue(quick.new())
    assert not hasattr(answer, "reason")
    return here()


@yard.task()
def parent_thread(ctx: Context) -> str:
    ctx.enqueue_blocking(quick.new())
    return here()


@yard.task(isolate=True)
def isolated_parent(ctx: Context) -> str:
    ctx.enqueue_blocking(quick.new())
    return here()
