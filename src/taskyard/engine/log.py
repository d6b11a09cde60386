"""Structured logs through the standard library, so that an application's own set-up applies."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

FIELDS = "taskyard"
"""The attribute of a log record that holds the event and its details, for formatters."""

_as_text = structlog.processors.KeyValueRenderer(key_order=["event"])


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Events are verbs of the port (`claim`, `finish`, `rescue`); details are key and value."""
    bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(f"taskyard.{name}"),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.stdlib.PositionalArgumentsFormatter(),
            _render,
        ],
    )
    return bound


def _render(
    wrapped: WrappedLogger, method: str, event: EventDict
) -> tuple[tuple[str], dict[str, Any]]:
    """As text for any formatter, and as it is for one that knows better."""
    fields = {name: _plain(value) for name, value in event.items()}
    return (str(_as_text(wrapped, method, dict(fields))),), {"extra": {FIELDS: fields}}


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value
