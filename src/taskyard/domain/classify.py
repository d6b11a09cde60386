"""Which errors are worth another try: one table, which users extend."""

from __future__ import annotations

import errno
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from taskyard.domain.clock import LONGEST
from taskyard.domain.errors import Fatal
from taskyard.domain.retry import Retry

RETRIED_STATUS = frozenset({429, 503})
FATAL_STATUS = frozenset({400, 401, 403, 404})


class Advice(StrEnum):
    RETRY = "retry"
    FATAL = "fatal"


Rule = Callable[[BaseException], Advice | None]
"""Looks at one error; None means: no opinion, ask the next rule."""


def http_status(error: BaseException) -> int | None:
    """The status an HTTP client's error carries, whichever client it is.

    httpx, requests and aiohttp each put it elsewhere, and none of them is a dependency.
    """
    for holder in (error, _of(error, "response")):
        for name in ("status_code", "status", "code"):
            value = _of(holder, name)
            if isinstance(value, int) and 100 <= value <= 599:
                return value
    return None


def retry_after(error: BaseException) -> float | None:
    """Seconds the other side asked us to wait, if the error says so."""
    asked = getattr(error, "after", None) if isinstance(error, Retry) else None
    if asked is not None:
        return float(asked)
    headers = _of(_of(error, "response"), "headers")
    if headers is None:
        headers = _of(error, "headers")
    try:
        wanted = _seconds(headers["Retry-After"]) if headers is not None else None
    except (KeyError, TypeError, ValueError):
        return None
    return wanted if wanted is not None and 0 <= wanted <= LONGEST else None


def _of(holder: object, name: str) -> Any:
    """An attribute of something foreign: looking at it may run code that raises."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None


def _seconds(header: str) -> float:
    """HTTP allows a number of seconds or a date."""
    try:
        return float(header)
    except ValueError:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - seldom needed, and slow

        until = parsedate_to_datetime(header)
        return max(0.0, (until - datetime.now(UTC)).total_seconds())


def by_type(advice: Advice, *types: type[BaseException]) -> Rule:
    return lambda error: advice if isinstance(error, types) else None


def by_status(error: BaseException) -> Advice | None:
    status = http_status(error)
    if status in RETRIED_STATUS:
        return Advice.RETRY
    return Advice.FATAL if status in FATAL_STATUS else None


def disk_full(error: BaseException) -> Advice | None:
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return Advice.FATAL if full else None


RULES: tuple[Rule, ...] = (
    by_type(Advice.FATAL, Fatal),
    by_type(Advice.RETRY, Retry),
    by_status,
    disk_full,
    by_type(Advice.RETRY, TimeoutError, ConnectionError),
)


class Classifier:
    """Asks the rules in order; an error nobody knows is worth the retries its kind has."""

    def __init__(self, rules: tuple[Rule, ...] = RULES) -> None:
        self._rules = rules

    def extended(self, *rules: Rule) -> Classifier:
        """The same table with these rules asked first."""
        return Classifier(rules + self._rules)

    def advise(self, error: BaseException) -> Advice:
        for rule in self._rules:
            advice = rule(error)
            if advice is not None:
                return advice
        return Advice.RETRY
