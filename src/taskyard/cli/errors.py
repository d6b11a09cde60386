"""One table from errors to exit codes, and the one line each error is told in."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from taskyard.cli.text import one_line
from taskyard.domain.errors import (
    ConfigurationError,
    IllegalTransition,
    InvalidHandler,
    InvalidTask,
    NotFound,
    ResultError,
    StaleAttempt,
    StoreError,
    TaskRefused,
    TaskyardError,
)
from taskyard.store.passwords import text_without_secrets

FAILED = 1
USAGE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141

EXIT_CODES: Mapping[type[BaseException], int] = {
    Exception: FAILED,
    TaskyardError: FAILED,  # there is no yard, a check has failed
    InvalidTask: USAGE,
    NotFound: 3,
    IllegalTransition: 4,
    StaleAttempt: 4,
    TaskRefused: 8,
    StoreError: 5,
    ConfigurationError: 6,
    InvalidHandler: 6,
    ResultError: 7,
}


class NoYard(TaskyardError):
    """There is nothing to look at or to change, and looking must not make it."""

    code = "no_yard"


class NotCurrent(TaskyardError):
    """`migrate --check` found something to do."""

    code = "not_current"


class ChecksFailed(TaskyardError):
    code = "checks_failed"


def exit_code(error: BaseException) -> int:
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


def code_of(error: BaseException) -> str:
    return error.code if isinstance(error, TaskyardError) else "unexpected"


def message_of(error: BaseException) -> str:
    if isinstance(error, TaskyardError):
        return str(error)
    return f"{type(error).__name__}: {error} (this is a bug in Taskyard)"


def tell(code: str, message: str, *, as_json: bool) -> None:
    """One line on stderr. What was typed may be quoted in it, and a URL in the wrong place."""
    message = text_without_secrets(message)
    if as_json:
        told = {"error": {"code": code, "message": message}}
        sys.stderr.write(f"{json.dumps(told)}\n")
        return
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    line = Text.assemble(("error: ", "bold red"), one_line(message))
    screen.print(line, soft_wrap=True)


def tell_error(error: BaseException, *, as_json: bool) -> None:
    tell(code_of(error), message_of(error), as_json=as_json)
