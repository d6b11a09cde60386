"""What a body says with `ctx.log`, as lines that are kept with its attempt: text, no secrets."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from taskyard.domain.logs import KeepLogs, Level, fitting
from taskyard.engine.redact import redacted_text, redacted_value

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

Keep = Callable[[Level, str], None]

NOTHING = logging.CRITICAL + 1
LEAST = {
    KeepLogs.OFF: NOTHING,
    KeepLogs.DEBUG: logging.DEBUG,
    KeepLogs.INFO: logging.INFO,
    KeepLogs.WARNING: logging.WARNING,
    KeepLogs.ERROR: logging.ERROR,
}
"""What is less is not kept."""

LONGEST = 100_000  # characters of a text that are looked at; most of them are cut then

_LEVELS = {
    "debug": (logging.DEBUG, Level.DEBUG),
    "info": (logging.INFO, Level.INFO),
    "warning": (logging.WARNING, Level.WARNING),
    "critical": (logging.CRITICAL, Level.CRITICAL),
}
_ERROR = (logging.ERROR, Level.ERROR)
_OWN = {"event", "positional_args", "exc_info", "stack_info"}
_ONE_WORD = re.compile(r"[^\s'\"=]+")


def collector(keep: Keep, least: int, about: Mapping[str, Any]) -> Processor:
    """Gives lines away that are worth keeping, and leaves every event as it is.

    What all lines of the attempt are about is not said with each of them.
    """

    def collect(_logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        number, level = _LEVELS.get(method, _ERROR)
        if number >= least:
            keep(level, _line(event, about))
        return event

    return collect


def _line(event: EventDict, about: Mapping[str, Any]) -> str:
    """Whatever the values are: no body fails because of what it says."""
    try:
        text = _said(event, about)
    except Exception as error:
        text = f"(a line that cannot be shown: {type(error).__name__})"
    return fitting(text)


def _said(event: EventDict, about: Mapping[str, Any]) -> str:
    words = [_safe(_message(event))]
    for name, value in event.items():
        if name not in _OWN and not (name in about and about[name] == value):
            words.append(f"{name}={_word(redacted_value(name, value))}")
    if stack := _stack(event.get("exc_info")):
        words[-1] += f"\n{_safe(stack)}"
    return " ".join(words)


def _safe(text: str) -> str:
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    return redacted_text(text)


def _message(event: EventDict) -> str:
    message, args = str(event.get("event", "")), event.get("positional_args")
    if not args:
        return message
    if len(args) == 1 and isinstance(args[0], dict) and args[0]:
        return str(message % args[0])  # %(name)s, as in the standard library
    return str(message % args)


def _word(value: object) -> str:
    if isinstance(value, int | float):
        return repr(value)
    is_one = isinstance(value, str) and _ONE_WORD.fullmatch(value)
    return _safe(str(value) if is_one else repr(value))


def _stack(said: object) -> str:
    error = said
    if isinstance(said, tuple):
        error = said[1]
    elif said and not isinstance(said, BaseException):
        error = sys.exc_info()[1]
    if not isinstance(error, BaseException):
        return ""
    return "".join(traceback.format_exception(error)).rstrip()
