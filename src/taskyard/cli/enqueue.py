"""`taskyard enqueue`: saves a task, and may wait for its end."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

import msgspec
import typer

from taskyard.cli.application import load_yard
from taskyard.cli.machine import parsed, plain, pretty, print_json
from taskyard.cli.target import AppArgument, Json
from taskyard.cli.text import clean
from taskyard.cli.words import payload_from
from taskyard.domain.errors import InvalidOption, ResultError, ResultTimeout
from taskyard.domain.task import Task
from taskyard.handle import Handle
from taskyard.kind import TaskKind
from taskyard.settings import LogFormat, LogLevel
from taskyard.yard import Yard


class Waiting(msgspec.Struct, frozen=True):
    wanted: bool
    timeout: float | None


class Sent(msgspec.Struct, frozen=True):
    """What came of it; `task` only if its end was waited for."""

    id: str
    duplicate: bool
    task: Task | None = None
    failure: ResultError | None = None


def enqueue(
    app: AppArgument,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="What to run.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE",
            help="Arguments. A value is JSON if it is JSON, else a string; "
            "a parameter that takes only strings gets a string.",
            show_default=False,
        ),
    ] = None,
    *,
    args: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="All arguments as an object, @FILE, or - for stdin."),
    ] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="1 (first) to 10 (last).")
    ] = None,
    lane: Annotated[str | None, typer.Option(metavar="NAME", help="Run it in this lane.")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A key to hold while it runs; may be repeated."),
    ] = None,
    dedup: Annotated[
        str | None, typer.Option(metavar="KEY", help="At most one task with this key at a time.")
    ] = None,
    delay: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="When it is due, from now.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Longest an attempt may take.")
    ] = None,
    id: Annotated[  # noqa: A002 - the option's own name
        str | None,
        typer.Option("--id", metavar="ID", help="Its id; the same one can be sent again safely."),
    ] = None,
    retries: Annotated[
        int | None, typer.Option(metavar="N", help="Runs after the first one.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end, print its result.")
    ] = False,
    timeout_wait: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Longest to wait.", min=0.0)
    ] = None,
    as_json: Json = False,
) -> None:
    """Save a task and print its id.

    Options that are not given are as its kind declares them.
    """
    if timeout_wait is not None and not wait:
        raise InvalidOption("--timeout-wait goes with --wait")
    from taskyard.cli.logs import set_up_logs  # noqa: PLC0415 - structlog is slow to import

    set_up_logs(LogLevel.WARNING, LogFormat.JSON if as_json else LogFormat.TEXT)
    yard = load_yard(app)
    chosen = yard.kind(kind).options(
        id=id, lane=lane, priority=priority, keys=key or (), dedup=dedup,
        timeout=timeout, retries=retries, delay=delay,
    )  # fmt: skip
    payload = payload_from(yard.registry[kind].signature.parameters, args, words or ())
    sent = asyncio.run(_send(yard, chosen, payload, Waiting(wait, timeout_wait), as_json))
    if as_json:
        print_json(_data(sent))
    elif sent.task is not None and sent.failure is None:
        sys.stdout.write(f"{clean(pretty(sent.task.result))}\n")
    if sent.failure is not None:
        raise sent.failure


async def _send(
    yard: Yard, kind: TaskKind[..., Any], payload: str, waiting: Waiting, as_json: bool
) -> Sent:
    new = kind.from_payload(payload)
    async with yard:
        [answer] = await yard.enqueue(new)
        handle = kind.handle(answer)
        if not as_json:
            _announce(handle, asked=new.id)
        if not waiting.wanted:
            return Sent(handle.id, handle.duplicate)
        failure = await _end_of(yard.handle(handle.id), waiting.timeout)
        return Sent(handle.id, handle.duplicate, await handle.task(), failure)


def _announce(handle: Handle[Any], asked: str) -> None:
    """The id alone on stdout, so that a script can take it."""
    sys.stdout.write(f"{handle.id}\n")
    sys.stdout.flush()  # it may be long before there is more to say
    if handle.duplicate:
        why = "has this id already" if handle.id == asked else "keeps this dedup key"
        sys.stderr.write(f"duplicate: task {handle.id} {why}; nothing was enqueued\n")


async def _end_of(handle: Handle[Any], timeout: float | None) -> ResultError | None:
    try:
        await handle.result(timeout)
    except ResultTimeout as error:
        return ResultTimeout(f"{error}: {(await handle.explain()).text}")
    except ResultError as error:
        return error
    return None


def _data(sent: Sent) -> dict[str, Any]:
    data: dict[str, Any] = {"id": sent.id, "duplicate": sent.duplicate}
    if sent.task is not None:
        task = sent.task
        data["state"] = task.state
        data["result"] = None if task.result is None else parsed(task.result)
        data["error"] = plain(task.error)
    return data
