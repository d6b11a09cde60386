"""The `taskyard` command: its parts, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Protocol, cast

import typer

import taskyard
from taskyard.cli import cron, keys, lanes, tasks, token
from taskyard.cli.audit import audit
from taskyard.cli.config import config
from taskyard.cli.copy import copy
from taskyard.cli.doctor import doctor
from taskyard.cli.enqueue import enqueue
from taskyard.cli.errors import INTERRUPTED, PIPE_CLOSED, USAGE, exit_code, tell, tell_error
from taskyard.cli.group import help_if_alone
from taskyard.cli.migrate import migrate
from taskyard.cli.prune import prune
from taskyard.cli.serve import serve
from taskyard.cli.stats import stats
from taskyard.cli.switch import pause, resume
from taskyard.cli.task_logs import logs
from taskyard.cli.top import top
from taskyard.cli.worker import worker
from taskyard.cli.workers import workers
from taskyard.domain.errors import InvalidOption

# The same class whether Typer brings its own Click (as it does from 0.26 on) or uses the library.
ClickException: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="taskyard",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.command()(worker)
app.command()(serve)
app.command()(enqueue)
app.add_typer(tasks.commands, name="tasks")
app.command()(logs)
app.add_typer(lanes.commands, name="lanes")
app.add_typer(keys.commands, name="keys")
app.add_typer(cron.commands, name="cron")
app.add_typer(token.commands, name="token")
app.command()(stats)
app.command()(top)
app.command()(workers)
app.command()(audit)
app.command()(pause)
app.command()(resume)
app.command()(config)
app.command()(doctor)
app.command()(migrate)
app.command()(copy)
app.command()(prune)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"taskyard {taskyard.__version__}\n")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run tasks, look at them, and act on them."""
    help_if_alone(context)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Never a traceback: whatever goes wrong is one line on stderr and an exit code."""
    try:
        try:
            _invoke(list(args))
        finally:
            sys.stdout.flush()
    except typer.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads on. Python would complain once more when it closes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as error:
        return _told(error, as_json=_wants_json(args))
    return 0


def _invoke(args: list[str]) -> None:
    if any(word != word.encode(errors="replace").decode() for word in args):
        raise InvalidOption("what was typed is not valid UTF-8")
    command = typer.main.get_command(app)
    if "_TASKYARD_COMPLETE" in os.environ:
        # A shell asks what could follow; it is answered, and the program ends there.
        command._main_shell_completion({}, "taskyard", "_TASKYARD_COMPLETE")  # noqa: SLF001 - as `main` of the library does
    with command.make_context("taskyard", args) as context:
        command.invoke(context)


class _UsageError(Protocol):
    ctx: typer.Context | None

    def format_message(self) -> str: ...


def _told(error: Exception, *, as_json: bool) -> int:
    if isinstance(error, ClickException):
        tell("usage", _usage(cast(_UsageError, error)), as_json=as_json)
        return USAGE
    tell_error(error, as_json=as_json)
    return exit_code(error)


def _usage(error: _UsageError) -> str:
    if getattr(error, "option_name", None) == "--server" and error.ctx is not None:
        return f"{error.ctx.command_path} knows no --server: it does its work here"
    return error.format_message()


def _wants_json(args: Sequence[str]) -> bool:
    """Asked of the words themselves, for it may be the words that are wrong."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options
