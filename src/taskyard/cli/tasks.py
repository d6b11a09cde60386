"""`taskyard tasks`: look at tasks, and act on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer
from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.errors import code_of, exit_code, message_of, tell_error
from taskyard.cli.group import group
from taskyard.cli.machine import plain, print_json, task_data
from taskyard.cli.render import show
from taskyard.cli.target import Json, Where, actor, ask, located
from taskyard.cli.task_page import explanation_lines, task_page, task_table
from taskyard.cli.text import one_line
from taskyard.cli.times import moment_of
from taskyard.domain.clock import Instant
from taskyard.domain.errors import TaskyardError
from taskyard.domain.explain import Explanation
from taskyard.domain.state import WAITING, State
from taskyard.domain.task import Task, TaskQuery
from taskyard.store.port import Cancellation, Pausing

commands = group("Look at tasks, and act on them.")

TaskId = Annotated[str, typer.Argument(metavar="ID", help="A task's id.", show_default=False)]
TaskIds = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Ids of tasks.", show_default=False)
]

Outcome = str | TaskyardError


@commands.command("list")
@located
def list_tasks(
    *,
    state: Annotated[State | None, typer.Option(help="Only in this state.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this kind.")] = None,
    lane: Annotated[str | None, typer.Option(metavar="NAME", help="Only in this lane.")] = None,
    key: Annotated[str | None, typer.Option(metavar="NAME", help="Only with this key.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only created since then: 2h ago, or a date and time."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only created before then.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Most to show.")] = 50,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on after this task, the last one seen.")
    ] = None,
    where: Where,
    as_json: Json = False,
) -> None:
    """The newest tasks first."""

    async def look(yard: Desk) -> tuple[list[Task], Instant]:
        now = await yard.store.now()
        query = TaskQuery(
            state=state,
            kind=kind,
            lane=lane,
            key=key,
            since=moment_of("--since", since, now),
            until=moment_of("--until", until, now),
            limit=limit,
            after=None if after is None else (await yard.get(after)).no,
        )
        return await yard.find(query), now

    found, now = ask(where, look)
    if as_json:
        print_json([task_data(task) for task in found])
    elif found:
        show(*task_table(found, now, full=len(found) == limit))
    else:
        show(Text("no tasks"))


@commands.command("show")
@located
def show_task(task_id: TaskId, where: Where, as_json: Json = False) -> None:
    """All about one task, and why it waits if it does."""

    async def look(yard: Desk) -> tuple[Task, Explanation | None, Instant]:
        task = await yard.get(task_id)
        why = await yard.explain(task_id) if task.state in WAITING else None
        return task, why, await yard.store.now()

    task, why, now = ask(where, look)
    if as_json:
        print_json({**task_data(task), "waits": plain(why.waits) if why else []})
    else:
        show(*task_page(task, why, now))


@commands.command()
@located
def explain(task_id: TaskId, where: Where, as_json: Json = False) -> None:
    """Say what keeps a task waiting."""

    async def look(yard: Desk) -> Explanation:
        return await yard.explain(task_id)

    why = ask(where, look)
    if as_json:
        print_json({**plain(why), "text": why.text})
    else:
        show(*explanation_lines(why))


@commands.command()
@located
def cancel(task_ids: TaskIds, where: Where, as_json: Json = False) -> None:
    """Cancel waiting tasks; ask running ones to stop."""

    async def act(yard: Desk, task_id: str) -> str:
        answer = await yard.cancel(task_id, actor=actor())
        return "asked to stop" if answer is Cancellation.ASKED else "cancelled"

    _each(where, task_ids, act, as_json)


@commands.command()
@located
def pause(task_ids: TaskIds, where: Where, as_json: Json = False) -> None:
    """Pause waiting tasks; ask running ones to end at their next checkpoint."""

    async def act(yard: Desk, task_id: str) -> str:
        answer = await yard.pause_task(task_id, actor=actor())
        return "asked to pause" if answer is Pausing.ASKED else "paused"

    _each(where, task_ids, act, as_json)


@commands.command()
@located
def resume(task_ids: TaskIds, where: Where, as_json: Json = False) -> None:
    """Let paused tasks go on where they were."""

    async def act(yard: Desk, task_id: str) -> str:
        await yard.resume_task(task_id, actor=actor())
        return (await yard.get(task_id)).state

    _each(where, task_ids, act, as_json)


@commands.command()
@located
def retry(task_ids: TaskIds, where: Where, as_json: Json = False) -> None:
    """Give failed or cancelled tasks a new life.

    Their budget of retries is full again; the attempts go on counting.
    """

    async def act(yard: Desk, task_id: str) -> str:
        await yard.retry(task_id, actor=actor())
        return "queued"

    _each(where, task_ids, act, as_json)


@commands.command()
@located
def prioritize(
    task_id: TaskId,
    priority: Annotated[
        int, typer.Argument(metavar="PRIORITY", help="1 (first) to 10 (last).", show_default=False)
    ],
    where: Where,
    as_json: Json = False,
) -> None:
    """Change the place of a waiting task."""

    async def act(yard: Desk, task_id: str) -> str:
        await yard.prioritize(task_id, priority, actor=actor())
        return f"priority {priority}"

    _each(where, [task_id], act, as_json)


def _each(
    where: Where,
    task_ids: list[str],
    act: Callable[[Desk, str], Awaitable[str]],
    as_json: bool,
) -> None:
    """Act on every task, also after one that refuses; the first refusal decides the exit code."""

    async def act_on_all(yard: Desk) -> list[tuple[str, Outcome]]:
        return [(task_id, await _outcome(act(yard, task_id))) for task_id in task_ids]

    outcomes = ask(where, act_on_all)
    errors = [outcome for _, outcome in outcomes if isinstance(outcome, TaskyardError)]
    if as_json:
        print_json([_entry(task_id, outcome) for task_id, outcome in outcomes])
    else:
        show(*(Text(f"{one_line(who)}  {told}") for who, told in outcomes if isinstance(told, str)))
    for error in errors[:1] if as_json else errors:
        tell_error(error, as_json=as_json)
    if errors:
        raise typer.Exit(exit_code(errors[0]))


async def _outcome(action: Awaitable[str]) -> Outcome:
    try:
        return await action
    except TaskyardError as error:
        return error


def _entry(task_id: str, outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, str):
        return {"id": task_id, "outcome": outcome}
    return {"id": task_id, "error": {"code": code_of(outcome), "message": message_of(outcome)}}
