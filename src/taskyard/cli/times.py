"""Moments on the command line: how long ago, or when."""

from __future__ import annotations

from datetime import datetime

from taskyard.domain.clock import Instant, micros
from taskyard.domain.errors import InvalidOption
from taskyard.options import instant
from taskyard.settings import read_age


def moment_of(option: str, text: str | None, now: Instant) -> Instant | None:
    """`2h` is two hours before now; a time without its zone is that of this machine."""
    if text is None:
        return None
    try:
        return now - micros(read_age(text).total_seconds())
    except InvalidOption:
        pass
    try:
        return instant(option, datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        raise InvalidOption(
            f"{option} takes an age such as 90m, 12h or 2d, or a time such as 2026-11-15T08:00, "
            f"not {text!r}"
        ) from None
