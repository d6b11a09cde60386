"""Statements are written with $1, $2, … in order; some drivers want %s."""

from __future__ import annotations

import re
from functools import cache

_DOLLAR = re.compile(r"\$\d+")


@cache
def percent(statement: str) -> str:
    return _DOLLAR.sub("%s", statement)
