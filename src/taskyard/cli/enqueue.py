"""`taskyard enqueue`: saves a task, and may wait for its end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from taskyard.cli.desk import Desk
from taskyard.cli.machine import parsed, plain, pretty, print_json
from taskyard.cli.target import AppArgument, Json, Server, TokenFile, Where, remote
from taskyard.cli.text import clean
from taskyard.cli.words import payload_from
from taskyard.domain.errors import InvalidOption, ResultError, ResultTimeout
from taskyard.domain.task import Duplicate, Task, new_task_id
from taskyard.engine.dependencies import plain as plain_result
from taskyard.handle import Handle
from taskyard.settings import LogFormat, LogLevel
from taskyard.yard import Yard

if TYPE_CHECKING:
    from taskyard.cli.remote import RemoteYard


class Waiting(msgspec.Struct, frozen=True):
    wanted: bool
    timeout: float | None


class Counter(NamedTuple):
    """Where one task is handed in."""

    desk: Desk
    asked: str  # the id it is to have
    save: Callable[[], Awaitable[Handle[Any]]]


class Sent(msgspec.Struct, frozen=True):
    """What came of it; `task` only if its end was waited for."""

    id: str
    duplicate: bool
    task: Task | None = None
    failure: ResultError | None = None


def enqueue(
    app: AppArgument,
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="What to run.", show_default=False)
    ] = None,
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
    server: Server = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Save a task and print its id.

    Options that are not given are as its kind declares them.
    """
    if timeout_wait is not None and not wait:
        raise InvalidOption("--timeout-wait goes with --wait")
    from taskyard.cli.logs import set_up_logs  # noqa: PLC0415 - structlog is slow to import

    set_up_logs(LogLevel.WARNING, LogFormat.JSON if as_json else LogFormat.TEXT)
    said = {
        "id": id or new_task_id(), "lane": lane, "priority": priority, "keys": key or [],
        "dedup": dedup, "timeout": timeout, "retries": retries, "delay": delay,
    }  # fmt: skip
    rest = [] if kind is None else [kind, *(words or ())]
    if server is not None:
        counter = _at_server(remote(server, token_file), app, args, rest, said)
    else:
        yard = Where(app=app, token_file=token_file).local()
        counter = _at_app(yard, args, rest, said)
    sent = asyncio.run(_send(counter, Waiting(wait, timeout_wait), as_json))
    if as_json:
        print_json(_data(sent))
    elif sent.task is not None and sent.failure is None:
        sys.stdout.write(f"{clean(pretty(sent.task.result))}\n")
    if sent.failure is not None:
        raise sent.failure


def _at_app(yard: Yard, args: str | None, rest: list[str], said: dict[str, Any]) -> Counter:
    if not rest:
        raise InvalidOption("say what to run: taskyard enqueue APP KIND")
    name, *words = rest
    kind = yard.kind(name).options(**said)
    new = kind.from_payload(payload_from(kind.kind.signature.parameters, args, words))

    async def save() -> Handle[Any]:
        [answer] = await yard.enqueue(new)
        return kind.handle(answer)

    return Counter(yard, new.id, save)


def _at_server(
    yard: RemoteYard, kind: str, args: str | None, words: list[str], said: dict[str, Any]
) -> Counter:
    """The server has the application: what is given begins with the kind."""

    async def save() -> Handle[Any]:
        payload = payload_from(await yard.parameters(kind), args, words)
        answer = await yard.create(kind, payload, **said)
        return Handle(answer.id, yard, plain_result, duplicate=isinstance(answer, Duplicate))

    return Counter(yard, said["id"], save)


async def _send(counter: Counter, waiting: Waiting, as_json: bool) -> Sent:
    async with counter.desk as desk:
        handle = await counter.save()
        if not as_json:
            _announce(handle, asked=counter.asked)
        if not waiting.wanted:
            return Sent(handle.id, handle.duplicate)
        failure = await _end_of(Handle(handle.id, desk, plain_result), waiting.timeout)
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
