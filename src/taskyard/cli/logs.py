"""Logs of a worker: to stderr, readable in a terminal, or one JSON object a line."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from taskyard.cli.text import clean
from taskyard.engine.log import FIELDS
from taskyard.settings import LogFormat, LogLevel


def set_up_logs(level: LogLevel, form: LogFormat) -> None:
    """For the whole process: what the application logs comes out the same way."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                _take_fields,
                *_stamp(form),
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_end(form)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("taskyard").setLevel(level.upper())
    if level is LogLevel.DEBUG or level is LogLevel.INFO:
        root.setLevel(logging.INFO)


def _take_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Our own records carry their event and details beside the text."""
    fields = getattr(event["_record"], FIELDS, None)
    if fields is not None:
        event.update(fields)
    return event


def _stamp(form: LogFormat) -> list[Processor]:
    if form is LogFormat.JSON:
        return [structlog.processors.TimeStamper(fmt="iso", utc=True)]
    return [structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)]


def _end(form: LogFormat) -> list[Processor]:
    if form is LogFormat.JSON:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [
        structlog.processors.format_exc_info,
        _clean_values,
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=20, pad_level=False),
    ]


def _clean_values(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {
        name: clean(value) if isinstance(value, str) else value for name, value in event.items()
    }
