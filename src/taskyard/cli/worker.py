"""`taskyard worker`: claims tasks and runs them until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import typer

from taskyard.cli.application import load_yard
from taskyard.cli.logs import LogFormat, LogLevel, set_up_logs
from taskyard.cli.target import AppArgument
from taskyard.domain.errors import ConfigurationError
from taskyard.domain.node import DEFAULT_LEASE_SECONDS
from taskyard.engine.worker import DEFAULT_GRACE, DEFAULT_SLOTS
from taskyard.yard import Yard

LAST_CHANCE = 1.0


def worker(
    app: AppArgument,
    *,
    slots: Annotated[
        int, typer.Option(metavar="N", help="Most tasks at once.", min=1)
    ] = DEFAULT_SLOTS,
    kinds: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these kinds.", show_default="all")
    ] = None,
    grace: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How long bodies may go on after SIGTERM.", min=0.0),
    ] = DEFAULT_GRACE,
    lease: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="How long this worker may be silent before it counts as dead."
        ),
    ] = DEFAULT_LEASE_SECONDS,
    node: Annotated[
        str | None, typer.Option(metavar="ID", help="This worker's name.", show_default="made up")
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="Least level shown.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="How logs look.")] = LogFormat.TEXT,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as --log-format json; errors too.")
    ] = False,
) -> None:
    """Run tasks until told to stop.

    SIGTERM or Ctrl-C lets bodies finish; a second one stops at once.
    """
    set_up_logs(log_level, LogFormat.JSON if as_json else log_format)
    yard = load_yard(app)
    if not yard.registry.names:
        raise ConfigurationError(f"{app} declares no tasks, so there is nothing to work on")
    named = None if kinds is None else [kind.strip() for kind in kinds.split(",") if kind.strip()]
    _run(yard, slots=slots, kinds=named, grace=grace, lease_seconds=lease, node_id=node)


def _run(yard: Yard, **options: Any) -> None:
    runner = asyncio.Runner(loop_factory=_fast_loop())
    if not runner.run(_work(yard, options)):
        _leave()
    runner.close()


async def _work(yard: Yard, options: dict[str, Any]) -> bool:
    """Work; afterwards whether everything that ran on this loop has ended."""
    pool = ThreadPoolExecutor(thread_name_prefix="asyncio")
    asyncio.get_running_loop().set_default_executor(pool)
    await yard.work(**options)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left and (await asyncio.wait(left, timeout=LAST_CHANCE))[1]:
        return False
    return _ended(pool)


def _ended(pool: ThreadPoolExecutor) -> bool:
    """Whether no body has left a thread behind: closing the loop would wait for it."""
    ending = threading.Thread(target=pool.shutdown, daemon=True)
    ending.start()
    ending.join(LAST_CHANCE)
    return not ending.is_alive()


def _leave() -> None:
    """Without waiting for bodies that do not stop: what was to be written has been written."""
    logging.shutdown()
    os._exit(0)


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return uvloop.new_event_loop
