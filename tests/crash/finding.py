"""What a check has found."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct):
    letter: str
    title: str
    checked: int = 0
    violations: list[str] = []
