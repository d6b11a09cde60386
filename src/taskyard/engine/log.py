"""Structured logs through the standard library, so that an application's own set-up applies."""

from __future__ import annotations

import logging
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger
    from structlog.typing import EventDict, Processor, WrappedLogger

FIELDS = "taskyard"
"""The attribute of a log record that holds the event and its details, for formatters."""


class Logger:
    """Events are verbs of the port (`claim`, `finish`, `rescue`); details are key and value.

    structlog is imported when something is first to be said: many a program enqueues a task, and
    has nothing to say.
    """

    def __init__(self, name: str) -> None:
        self._plain = logging.getLogger(f"taskyard.{name}")

    def debug(self, event: str, **details: Any) -> None:
        self.log(logging.DEBUG, event, **details)

    def info(self, event: str, **details: Any) -> None:
        self.log(logging.INFO, event, **details)

    def warning(self, event: str, **details: Any) -> None:
        self.log(logging.WARNING, event, **details)

    def error(self, event: str, **details: Any) -> None:
        self.log(logging.ERROR, event, **details)

    def critical(self, event: str, **details: Any) -> None:
        self.log(logging.CRITICAL, event, **details)

    def exception(self, event: str, **details: Any) -> None:
        """An error, with the traceback of the one that is being handled."""
        if self._plain.isEnabledFor(logging.ERROR):
            self._bound.exception(event, **details)

    def log(self, level: int, event: str, **details: Any) -> None:
        if self._plain.isEnabledFor(level):
            self._bound.log(level, event, **details)

    def get_ready(self) -> None:
        """Whoever works says something sooner or later, and should not have to import then."""
        _ = self._bound

    def bind(self, **details: Any) -> BoundLogger:
        """One that says these with every event."""
        return self._bound.bind(**details)

    def collecting(self, collect: Processor, about: dict[str, Any]) -> BoundLogger:
        """One that says these with every event, and gives each to `collect` too, also those below
        the level that is logged.
        """
        from structlog.stdlib import BoundLogger  # noqa: PLC0415 - as below

        return BoundLogger(self._plain, [collect, *self._processors], about)

    @cached_property
    def _bound(self) -> BoundLogger:
        import structlog  # noqa: PLC0415 - a fifth of the time that importing Taskyard would take

        bound: BoundLogger = structlog.wrap_logger(
            self._plain, wrapper_class=structlog.stdlib.BoundLogger, processors=self._processors
        )
        return bound

    @cached_property
    def _processors(self) -> list[Processor]:
        import structlog  # noqa: PLC0415 - as above

        as_text = structlog.processors.KeyValueRenderer(key_order=["event"])

        def render(
            wrapped: WrappedLogger, method: str, event: EventDict
        ) -> tuple[tuple[str], dict[str, Any]]:
            """As text for any formatter, and as it is for one that knows better."""
            fields = {name: _plain(value) for name, value in event.items()}
            return (str(as_text(wrapped, method, dict(fields))),), {"extra": {FIELDS: fields}}

        return [
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.stdlib.PositionalArgumentsFormatter(),
            render,
        ]


def logger(name: str) -> Logger:
    return Logger(name)


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value
