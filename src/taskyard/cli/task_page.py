"""Tasks as people see them: a table of many, a page about one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Column
from rich.text import Text

from taskyard.cli.machine import pretty
from taskyard.cli.render import (
    block,
    cell,
    console,
    duration,
    fields,
    fixed,
    heading,
    indented,
    moment,
    relative,
    right,
    state_cell,
    table,
)
from taskyard.cli.text import one_line
from taskyard.domain.clock import Instant, seconds
from taskyard.domain.explain import Condition, Explanation
from taskyard.domain.state import Reason, State
from taskyard.domain.task import FailedAttempt, Task

NOTES_FROM = 110
MOST_NAMED = 5
MOST_OF_MESSAGE = 200

_CONDITIONS = {
    Condition.STATE: "time",
    Condition.BATCH: "batch",
    Condition.LANE: "lane",
    Condition.KEYS: "keys",
    Condition.NODE: "workers",
    Condition.ORDER: "order",
}


def task_table(tasks: Sequence[Task], now: Instant, *, full: bool) -> Iterator[RenderableType]:
    screen = console()
    notes = screen.width >= NOTES_FROM
    columns = (fixed("id"), fixed("state"), Column("kind"), Column("lane"), right("pri"),
               right("try"), fixed("when"), *((Column("note"),) if notes else ()))  # fmt: skip
    yield table(*columns, rows=[_row(task, now, notes) for task in tasks])
    if full and screen.is_terminal:
        yield Text(f"more: --after {tasks[-1].id}", style="dim")


def _row(task: Task, now: Instant, notes: bool) -> tuple[Text, ...]:
    row = (
        cell(task.id),
        state_cell(task.state),
        cell(task.kind),
        cell(task.lane),
        cell(task.priority, "dim" if task.priority == 5 else ""),
        cell(task.attempt, "" if task.attempt > 1 else "dim"),
        cell(relative(_since(task), now), "dim"),
    )
    return (*row, cell(_note(task), "dim")) if notes else row


def _since(task: Task) -> Instant:
    """When it came, or will come, to where it is."""
    if task.ended_at is not None:
        return task.ended_at
    return task.started_at if task.started_at and task.state is State.RUNNING else task.run_at


def _note(task: Task) -> str:
    if task.asked:
        return f"asked to {task.asked}"
    if task.error is not None:
        return f"{task.error.type}: {task.error.message}"
    if task.state is State.RUNNING and task.progress is not None:
        return _progress(task)
    return f"waits for key {task.parked_on}" if task.parked_on else ""


def _progress(task: Task) -> str:
    if task.progress is None:
        return ""
    done, total, note = task.progress.done, task.progress.total, task.progress.note
    figure = f"{done:g} of {total:g} ({done / total:.0%})" if total else f"{done:g}"
    return f"{figure} {note}".strip()


# --- one task ---


def task_page(task: Task, why: Explanation | None, now: Instant) -> Iterator[RenderableType]:
    yield Text.assemble(
        (one_line(task.id), "bold"), "  ", one_line(task.kind), "  ", state_cell(task.state)
    )
    yield _facts(task)
    if why is not None:
        yield heading("Why it waits")
        yield from _waits(why)
    yield heading("Timeline")
    yield indented(table(fixed(), fixed(), fixed(), Column(), rows=_timeline(task, now)))
    yield heading("Payload")
    yield block(pretty(task.payload))
    if task.checkpoint is not None:
        yield heading("Checkpoint")
        yield block(pretty(task.checkpoint))
    if task.result is not None:
        yield heading("Result")
        yield block(pretty(task.result))
    if task.error is not None:
        yield heading("Error")
        yield block(f"{task.error.type}: {task.error.message}", "red")
        if task.error.stack:
            yield block(task.error.stack, "dim")


def _facts(task: Task) -> RenderableType:
    runs = f"{task.charged} of {task.max_charged} charged, attempt {task.attempt}"
    return fields(
        [
            ("lane", task.lane),
            ("priority", str(task.priority)),
            ("keys", ", ".join(task.keys)),
            ("dedup", task.dedup),
            ("group", task.group),
            ("requires", ", ".join(task.requires)),
            ("depends on", _depends(task)),
            ("runs", runs),
            ("timeout", duration(task.timeout)),
            ("deadline", None if task.deadline is None else moment(task.deadline)),
            ("worker", task.node if task.state is State.RUNNING else None),
            ("progress", _progress(task)),
            ("asked", f"to {task.asked}" if task.asked else None),
        ]
    )


def _depends(task: Task) -> str:
    if not task.depends_on:
        return ""
    shown = ", ".join(task.depends_on[:MOST_NAMED])
    more = len(task.depends_on) - MOST_NAMED
    tail = f" and {more:,} more" if more > 0 else ""
    unmet = f" ({task.waits_for:,} not ended)" if task.waits_for else ""
    return f"{shown}{tail}{unmet}"


def explanation_lines(why: Explanation) -> Iterator[RenderableType]:
    yield Text.assemble((one_line(why.id), "bold"), "  ", state_cell(why.state))
    yield from _waits(why)


def _waits(why: Explanation) -> Iterator[RenderableType]:
    if why.waits:
        yield fields((_CONDITIONS[wait.condition], wait.text) for wait in why.waits)
    else:
        yield block(why.text)


def _timeline(task: Task, now: Instant) -> Iterator[tuple[Text, ...]]:
    yield _event("created", task.created_at, now)
    for failure in task.failures:
        yield _failure(failure, now)
    if task.state is State.PENDING:
        yield _event("due", task.run_at, now)
    elif task.state is State.QUEUED and task.reason is not Reason.CREATED:
        # One that was given back keeps its place, and with it the time it was first due.
        given_back = task.reason in (Reason.RELEASED, Reason.RESCUED)
        yield _event("queued", None if given_back else task.run_at, now, task.reason)
    elif task.state is State.RUNNING:
        yield _event(f"attempt {task.attempt}", task.started_at, now, f"running on {task.node}")
    elif task.ended_at is not None:
        yield _end(task, now)


def _failure(failure: FailedAttempt, now: Instant) -> tuple[Text, ...]:
    told = f"{failure.reason}{_ran(failure.started_at, failure.at)}"
    if failure.node:
        told += f" on {failure.node}"
    if failure.error is not None:
        told += f": {failure.error.type}: {failure.error.message[:MOST_OF_MESSAGE]}"
    return _event(f"attempt {failure.attempt}", failure.at, now, told)


def _end(task: Task, now: Instant) -> tuple[Text, ...]:
    ran = _ran(task.started_at, task.ended_at) if task.state is State.COMPLETED else ""
    node = f" on {task.node}" if ran and task.node else ""
    name, at, ago, note = _event(str(task.state), task.ended_at, now, f"{task.reason}{ran}{node}")
    name.stylize(state_cell(task.state).style)
    return name, at, ago, note


def _ran(started: Instant | None, ended: Instant | None) -> str:
    return f" after {duration(seconds(ended - started))}" if started and ended else ""


def _event(name: str, at: Instant | None, now: Instant, note: str = "") -> tuple[Text, ...]:
    told = Text(one_line(note), overflow="fold")
    if at is None:
        return cell(name), cell(""), cell(""), told
    return cell(name), cell(moment(at)), cell(relative(at, now), "dim"), told
