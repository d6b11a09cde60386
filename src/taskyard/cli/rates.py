"""Rates and limits as they are typed and shown."""

from __future__ import annotations

import re

from taskyard.domain.errors import InvalidOption
from taskyard.domain.rate import Rate

_RATE = re.compile(r"(\d+)/(\d+(?:\.\d+)?)?([smhd])", re.ASCII)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def read_rate(text: str, burst: int | None) -> Rate | None:
    """`10/s`, `100/m`, `5/30s`; `none` for none."""
    if text == "none":
        return None
    found = _RATE.fullmatch(text)
    if found is None:
        raise InvalidOption(
            f"--rate takes so many in a time, such as 10/s, 100/m or 5/30s, or none; not {text!r}"
        )
    rate = Rate(int(found[1]), float(found[2] or 1) * _UNITS[found[3]], burst or 1)
    rate.check()
    return rate


def rate_text(rate: Rate) -> str:
    """As it would be typed."""
    whole = [unit for unit, size in _UNITS.items() if rate.seconds % size == 0]
    unit = whole[-1] if whole else "s"
    count = rate.seconds / _UNITS[unit]
    burst = f", {rate.burst} at once" if rate.burst > 1 else ""
    return f"{rate.starts}/{'' if count == 1 else f'{count:g}'}{unit}{burst}"


def read_limit(option: str, text: str) -> int | None:
    if text == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidOption(f"{option} takes a number or none, not {text!r}") from None
