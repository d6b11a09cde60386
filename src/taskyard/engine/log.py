"""Structured logs through the standard library, so that an application's own set-up applies."""

from __future__ import annotations

import logging

import structlog


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Events are verbs of the port (`claim`, `finish`, `rescue`); details are key and value."""
    bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(f"taskyard.{name}"),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
    )
    return bound
