"""`taskyard worker`: claims tasks and runs them until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import typer

from taskyard.cli.application import load_yard
from taskyard.domain.errors import ConfigurationError, InvalidOption
from taskyard.domain.logs import KeepLogs
from taskyard.settings import LogFormat, LogLevel, load, read_size
from taskyard.yard import Yard

LAST_CHANCE = 1.0


def worker(
    app: Annotated[
        str | None,
        typer.Argument(
            metavar="[APP]",
            help="The yard: module:attribute or path/to/file.py:attribute.",
            show_default="app of taskyard.toml",
        ),
    ] = None,
    *,
    slots: Annotated[
        int | None, typer.Option(metavar="N", help="Most tasks at once.", show_default="100")
    ] = None,
    kinds: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these kinds.", show_default="all")
    ] = None,
    capabilities: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="What tasks may require.", show_default="none"),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="How long bodies may go on after SIGTERM.", show_default="30"
        ),
    ] = None,
    lease: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How long this worker may be silent before it counts as dead.",
            show_default="30",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Beyond it, such as 2GB, it drains and ends.", show_default="none"
        ),
    ] = None,
    node: Annotated[
        str | None, typer.Option(metavar="ID", help="This worker's name.", show_default="made up")
    ] = None,
    log_level: Annotated[
        LogLevel | None, typer.Option(help="Least level shown.", show_default="info")
    ] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(help="How logs look.", show_default="text")
    ] = None,
    keep_logs: Annotated[
        KeepLogs | None,
        typer.Option(help="Least level of what bodies say that is kept.", show_default="info"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as --log-format json; errors too.")
    ] = False,
) -> None:
    """Run tasks until told to stop.

    SIGTERM or Ctrl-C lets bodies finish; a second one stops at once. What no option says is taken
    from TASKYARD_* variables, then from taskyard.toml.
    """
    settings = load(
        given(
            {
                "app": ("APP", app),
                "worker.slots": ("--slots", slots),
                "worker.kinds": ("--kinds", listed("--kinds", kinds)),
                "worker.capabilities": ("--capabilities", listed("--capabilities", capabilities)),
                "worker.grace": ("--grace", grace),
                "worker.lease": ("--lease", lease),
                "worker.memory_limit": ("--memory-limit", memory_limit),
                "log.level": ("--log-level", log_level),
                "log.format": ("--log-format", LogFormat.JSON if as_json else log_format),
                "log.keep": ("--keep-logs", keep_logs),
            }
        )
    ).settings
    from taskyard.cli.logs import set_up_logs  # noqa: PLC0415 - structlog is slow to import

    set_up_logs(settings.log.level, settings.log.format)
    if settings.app is None:
        raise InvalidOption(
            "say what to run: taskyard worker module:attribute, or app = in taskyard.toml"
        )
    yard = load_yard(settings.app)
    if not yard.registry.names:
        raise ConfigurationError(
            f"{settings.app} declares no tasks, so there is nothing to work on"
        )
    limit = settings.worker.memory_limit
    _run(
        yard,
        slots=settings.worker.slots,
        kinds=settings.worker.kinds,
        capabilities=settings.worker.capabilities,
        grace=settings.worker.grace,
        lease_seconds=settings.worker.lease,
        node_id=node,
        memory_limit=None if limit is None else read_size(limit),
        keep_logs=settings.log.keep,
    )


def given(flags: Mapping[str, tuple[str, Any]]) -> dict[str, tuple[str, Any]]:
    """Those that were typed."""
    return {name: flag for name, flag in flags.items() if flag[1] is not None}


def listed(flag: str, text: str | None) -> list[str] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InvalidOption(f"{flag} names nothing; leave it out, or write {flag} A,B")
    return words


def _run(yard: Yard, **options: Any) -> None:
    run_on_fast_loop(_code_of(yard.work(**options)))


async def _code_of(work: Awaitable[None]) -> int:
    try:
        await work
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return 0


def run_on_fast_loop(work: Coroutine[Any, Any, int]) -> None:
    """Until it ends, with the exit code it says, whatever bodies have left behind."""
    runner = asyncio.Runner(loop_factory=_fast_loop())
    all_ended, code = runner.run(_work(work))
    if not all_ended:
        _leave(code)
    runner.close()
    if code:
        raise typer.Exit(code)


async def _work(work: Coroutine[Any, Any, int]) -> tuple[bool, int]:
    """Work; afterwards whether everything that ran on this loop has ended, and the exit code."""
    pool = ThreadPoolExecutor(thread_name_prefix="asyncio")
    asyncio.get_running_loop().set_default_executor(pool)
    code = await work
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left and (await asyncio.wait(left, timeout=LAST_CHANCE))[1]:
        return False, code
    return _ended(pool), code


def _ended(pool: ThreadPoolExecutor) -> bool:
    """Whether no body has left a thread behind: closing the loop would wait for it."""
    ending = threading.Thread(target=pool.shutdown, daemon=True)
    ending.start()
    ending.join(LAST_CHANCE)
    return not ending.is_alive()


def _leave(code: int) -> None:
    """Without waiting for bodies that do not stop: what was to be written has been written."""
    logging.shutdown()
    os._exit(code)


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return uvloop.new_event_loop
