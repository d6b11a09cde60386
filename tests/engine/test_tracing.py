"""Spans from enqueue to the end of each attempt, with the SDK of OpenTelemetry."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from taskyard import State, Yard
from taskyard.domain.errors import InvalidOption
from taskyard.engine import tracing
from tests.engine import traced_kinds
from tests.engine.waits import ended, working

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Spans:
    """What this process has traced."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def all(self, name: str) -> list[ReadableSpan]:
        found = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        [span] = self.all(name)
        return span


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The API lets a provider be set once in a process.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield Spans(exporter)
    provider.shutdown()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'yard.db'}"


@pytest.fixture
async def yard(url: str) -> AsyncIterator[Yard]:
    async with Yard(url) as yard:
        for kind in traced_kinds.yard.registry:
            yard.registry.add(kind)
        yield yard


def span_id(span: ReadableSpan) -> str:
    return f"0x{context_of(span).span_id:016x}"


def trace_id(span: ReadableSpan) -> int:
    return context_of(span).trace_id


def context_of(span: ReadableSpan) -> trace.SpanContext:
    context = span.get_span_context()
    assert isinstance(context, trace.SpanContext)
    return context


def above(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"0x{span.parent.span_id:016x}"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_one_trace_goes_through_two_processes(url: str, tmp_path: Path, spans: Spans) -> None:
    async def ask() -> str:
        async with Yard(url) as yard:
            yard.registry.add(traced_kinds.thread.kind)
            with trace.get_tracer("test").start_as_current_span("request"):
                return (await yard.kind("thread").enqueue()).id

    task_id = asyncio.run(ask())
    file = tmp_path / "spans"
    environment = os.environ | {"TASKYARD_TEST_URL": url, "TASKYARD_TEST_SPANS": str(file)}
    command = [sys.executable, "-m", "tests.engine.traced_worker", task_id]
    subprocess.run(command, env=environment, check=True, timeout=60)

    request, enqueue = spans.one("request"), spans.one("enqueue thread")
    run, inside = (elsewhere(file, name) for name in ("run thread", "inside"))
    assert enqueue.kind is SpanKind.PRODUCER
    assert above(enqueue) == span_id(request)
    assert run["kind"] == "SpanKind.CONSUMER"
    assert run["parent_id"] == span_id(enqueue)
    assert inside["parent_id"] == run["context"]["span_id"]
    assert {int(span["context"]["trace_id"], 16) for span in (run, inside)} == {trace_id(request)}


def elsewhere(file: Path, name: str) -> dict[str, Any]:
    """The span of this name that another process has sent."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    [span] = [span for span in lines if span["name"] == name]
    found: dict[str, Any] = span
    return found


@pytest.mark.parametrize("kind", ["coroutine", "quick", "thread"])
async def test_a_body_sees_the_span_of_its_attempt(yard: Yard, spans: Spans, kind: str) -> None:
    async with working(yard):
        with trace.get_tracer("test").start_as_current_span("request") as request:
            first = await yard.kind(kind).enqueue()
        second = await yard.kind(kind).enqueue()
        seen = [await first.result(20), await second.result(20)]

    runs = spans.all(f"run {kind}")
    by_task = {attributes(run)["messaging.message.id"]: span_id(run) for run in runs}
    assert seen == [by_task[first.id], by_task[second.id]]
    assert [above(span) for span in spans.all("inside")] == [span_id(run) for run in runs]
    traces = {attributes(run)["messaging.message.id"]: trace_id(run) for run in runs}
    assert traces[first.id] == request.get_span_context().trace_id != traces[second.id]


@pytest.mark.parametrize("kind", ["isolated", "isolated_coroutine"])
async def test_an_isolated_body_goes_on_with_the_trace(
    yard: Yard, spans: Spans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("TASKYARD_TEST_SPANS", str(tmp_path / "spans"))
    async with working(yard):
        around = await (await yard.kind(kind).enqueue()).result(20)

    run, enqueue = spans.one(f"run {kind}"), spans.one(f"enqueue {kind}")
    assert around == span_id(run)
    assert above(run) == span_id(enqueue)
    inside = elsewhere(tmp_path / "spans", "inside")  # sent although the process was not idle long
    assert inside["parent_id"] == span_id(run)
    assert int(inside["context"]["trace_id"], 16) == trace_id(enqueue)


@pytest.mark.parametrize("kind", ["parent", "parent_thread", "isolated_parent"])
async def test_what_a_body_enqueues_is_below_it(yard: Yard, spans: Spans, kind: str) -> None:
    await check_children(yard, spans, kind)


async def test_so_it_is_where_the_process_of_the_body_traces(
    yard: Yard, spans: Spans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKYARD_TEST_SPANS", str(tmp_path / "spans"))
    await check_children(yard, spans, "isolated_parent")


async def check_children(yard: Yard, spans: Spans, kind: str) -> None:
    async with working(yard):
        await (await yard.kind(kind).enqueue()).result(20)
        [quick] = [task for task in await yard.find() if task.kind == "quick"]
        await ended(yard.handle(quick.id))

    run, enqueue = spans.one(f"run {kind}"), spans.one("enqueue quick")
    assert above(enqueue) == span_id(run)
    assert above(spans.one("run quick")) == span_id(enqueue)


async def test_a_retry_has_a_trace_of_its_own_and_a_link(yard: Yard, spans: Spans) -> None:
    async with working(yard):
        await (await yard.kind("second_time").enqueue()).result(20)

    enqueue = spans.one("enqueue second_time")
    first, second = spans.all("run second_time")
    assert above(first) == span_id(enqueue)
    assert first.links == ()
    assert above(second) is None
    assert trace_id(second) != trace_id(first)
    [link] = second.links
    assert (link.context.trace_id, link.context.span_id) == (
        context_of(enqueue).trace_id,
        context_of(enqueue).span_id,
    )
    assert attributes(first)["taskyard.outcome"] == "retried"
    assert attributes(second)["taskyard.outcome"] == "completed"
    assert (first.status.status_code, second.status.status_code) == (
        StatusCode.ERROR,
        StatusCode.UNSET,
    )


async def test_what_was_put_off_has_a_link(yard: Yard, spans: Spans) -> None:
    async with working(yard):
        await (await yard.kind("quick").options(delay=0.001).enqueue()).result(20)

    run, enqueue = spans.one("run quick"), spans.one("enqueue quick")
    assert above(run) is None
    assert [link.context.span_id for link in run.links] == [context_of(enqueue).span_id]


async def test_a_workflow_is_one_trace(yard: Yard, spans: Spans) -> None:
    async with working(yard):
        with trace.get_tracer("test").start_as_current_span("request") as request:
            first = await yard.kind("quick").enqueue()
            then = yard.kind("thread").options(depends_on=[first])
            await (await then.enqueue()).result(20)

    runs = spans.one("run quick"), spans.one("run thread")
    assert {trace_id(run) for run in runs} == {request.get_span_context().trace_id}


@pytest.mark.spec("security-10")
@pytest.mark.parametrize("kind", ["login", "isolated_login"])
async def test_secrets_and_arguments_stay_out(yard: Yard, spans: Spans, kind: str) -> None:
    async with working(yard):
        handle = await yard.kind(kind).enqueue(user="ann-the-user", password="s3cret-w0rd")
        assert (await ended(handle)).state is State.FAILED

    run, enqueue = spans.one(f"run {kind}"), spans.one(f"enqueue {kind}")
    [event] = run.events
    said = dict(event.attributes or {})
    assert said["exception.type"] == "PermissionError"
    assert str(said["exception.message"]).startswith("no ann-the-user")
    assert "traced_kinds.py" in str(said["exception.stacktrace"])
    assert "s3cret" not in run.to_json() + enqueue.to_json()
    assert "ann-the-user" not in str((attributes(run), attributes(enqueue)))
    assert run.status.description is not None
    assert "***" in run.status.description


async def test_spans_say_what_they_are_about(yard: Yard, spans: Spans) -> None:
    async with working(yard):
        handle = await yard.kind("quick").options(lane="fast").enqueue()
        await handle.result(20)

    assert attributes(spans.one("enqueue quick")) == {
        "messaging.system": "taskyard",
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
        "messaging.destination.name": "fast",
        "messaging.message.id": handle.id,
        "taskyard.kind": "quick",
        "taskyard.answer": "enqueued",
    }
    about = attributes(spans.one("run quick"))
    assert about.pop("taskyard.waited") >= 0
    assert about == {
        "messaging.system": "taskyard",
        "messaging.operation.type": "process",
        "messaging.operation.name": "run",
        "messaging.destination.name": "fast",
        "messaging.message.id": handle.id,
        "taskyard.kind": "quick",
        "taskyard.attempt": 1,
        "taskyard.outcome": "completed",
    }


async def test_a_body_that_is_put_off_says_so(yard: Yard, spans: Spans) -> None:
    async with working(yard):
        await (await yard.kind("snoozing").enqueue()).result(20)

    outcomes = [attributes(run)["taskyard.outcome"] for run in spans.all("run snoozing")]
    assert outcomes == ["snoozed", "completed"]


async def test_a_call_with_many_tasks_is_one_span(yard: Yard, spans: Spans) -> None:
    quick, thread = yard.kind("quick"), yard.kind("thread")
    await yard.enqueue(*(quick.new() for _ in range(300)))
    await yard.enqueue(quick.new(), thread.new())

    assert attributes(spans.one("enqueue quick"))["messaging.batch.message_count"] == 300
    both = spans.one("enqueue")
    assert "taskyard.kind" not in attributes(both)
    context = context_of(both)
    expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert [task.trace for task in (await yard.find())[:2]] == [expected, expected]


async def test_a_duplicate_says_whose_it_is(yard: Yard, spans: Spans) -> None:
    once = yard.kind("quick").options(dedup="once")
    first, second = await once.enqueue(), await once.enqueue()

    assert second.duplicate
    about = attributes(spans.all("enqueue quick")[1])
    assert (about["taskyard.answer"], about["messaging.message.id"]) == ("duplicate", first.id)


async def test_an_enqueue_that_fails_tells_why(yard: Yard, spans: Spans) -> None:
    with pytest.raises(InvalidOption):
        await yard.kind("quick").options(depends_on=["nobody"]).enqueue()

    span = spans.one("enqueue quick")
    assert span.status.status_code is StatusCode.ERROR
    [event] = span.events
    assert dict(event.attributes or {})["exception.type"] == "InvalidOption"


async def test_those_who_block_are_traced_too(yard: Yard, spans: Spans) -> None:
    def block() -> str:
        with trace.get_tracer("test").start_as_current_span("request"):
            return yard.kind("quick").sync.enqueue().id

    await asyncio.to_thread(block)
    await asyncio.to_thread(yard.sync.close)

    assert above(spans.one("enqueue quick")) == span_id(spans.one("request"))


async def test_a_callers_transaction_is_traced_too(
    yard: Yard, spans: Spans, tmp_path: Path
) -> None:
    with (
        closing(apsw.Connection(str(tmp_path / "yard.db"))) as connection,
        trace.get_tracer("test").start_as_current_span("request"),
        connection,
    ):
        awaited = await yard.kind("quick").enqueue_in(connection)
        blocking = yard.kind("quick").enqueue_in_sync(connection)

    request = span_id(spans.one("request"))
    assert [above(span) for span in spans.all("enqueue quick")] == [request, request]
    traces = [(await handle.task()).trace for handle in (awaited, blocking)]
    assert [one and one[36:52] for one in traces] == [
        span_id(span)[2:] for span in spans.all("enqueue quick")
    ]


async def test_a_trace_that_a_task_brings_is_the_one_above(yard: Yard, spans: Spans) -> None:
    async with working(yard):
        task = yard.kind("quick").new()
        await yard.enqueue(msgspec.structs.replace(task, trace=GIVEN))
        await ended(yard.handle(task.id))

    enqueue, run = spans.one("enqueue quick"), spans.one("run quick")
    assert above(enqueue) == f"0x{GIVEN[36:52]}"
    assert f"{trace_id(run):032x}" == GIVEN[3:35]
    assert above(run) == span_id(enqueue)


async def test_without_a_provider_it_only_travels(yard: Yard) -> None:
    assert tracing.tracer() is None
    task = msgspec.structs.replace(yard.kind("quick").new(), trace=GIVEN)
    async with working(yard):
        await yard.enqueue(task)
        ended_task = await ended(yard.handle(task.id))

    assert ended_task.trace == GIVEN
    assert ended_task.result == '"0x0000000000000000"'


async def test_a_trial_is_traced_like_a_worker(spans: Spans) -> None:
    async with traced_kinds.yard.testing() as trial:
        await traced_kinds.parent.enqueue()
        await trial.drain()

    run, enqueue = spans.one("run parent"), spans.one("enqueue quick")
    assert above(run) == span_id(spans.one("enqueue parent"))
    assert above(enqueue) == span_id(run)
    assert above(spans.one("run quick")) == span_id(enqueue)


ALONE = """
import asyncio, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry" and {blocked}:
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
from taskyard import Yard

yard = Yard({url!r})

@yard.task()
async def add(a: int) -> int:
    return a + 1

async def main():
    async with yard:
        worker = yard.worker()
        await worker.start()
        assert await (await add.enqueue(1)).result(20) == 2
        await worker.stop()

asyncio.run(main())
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
print("well")
"""


@pytest.mark.parametrize("blocked", [True, False], ids=["absent", "installed"])
def test_nothing_is_imported_where_nobody_traces(url: str, blocked: bool) -> None:
    program = ALONE.format(url=url, blocked=blocked)

    done = subprocess.run(
        [sys.executable, "-c", program], check=False, timeout=60, capture_output=True, text=True
    )

    assert done.stdout == "well\n", done.stderr
