"""Hiding what a task was given in secret wherever it comes up again."""

from __future__ import annotations

import re
from typing import Any, Self

import msgspec

from taskyard.engine.redact import HIDDEN, is_secret, without_logins, without_secrets

SHORTEST_SECRET = 4  # characters: shorter ones are in many innocent words

_CUT_LOGIN = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+$")


class Veil:
    """Of one task: for its result, its errors, its notes and what is logged of it."""

    def __init__(self, payload: Any) -> None:
        self._secrets = sorted(_secrets_in(payload), key=len, reverse=True)

    @classmethod
    def of(cls, payload: str) -> Self:
        try:
            return cls(msgspec.json.decode(payload))
        except (msgspec.DecodeError, RecursionError):
            return cls(None)

    def value(self, value: Any) -> Any:
        shown = without_secrets(value)
        return self._covered(shown, 0) if self._secrets else shown

    def text(self, text: str, *, cut: bool = False) -> str:
        """`cut`: it was longer once, so that a part of a secret may be left at either end."""
        text = without_logins(text)
        if cut:
            text = _CUT_LOGIN.sub(rf"\1:{HIDDEN}", text)
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
            if cut:
                text = _without_part(text, secret)
        return text

    def _covered(self, value: Any, depth: int) -> Any:
        match value:
            case str():
                return self.text(value)
            case dict():
                return {name: self._covered(one, depth + 1) for name, one in value.items()}
            case list():
                return [self._covered(one, depth + 1) for one in value]
            case _:
                return value


def _without_part(text: str, secret: str) -> str:
    """Without the beginning of a secret at the end, and the end of one at the beginning."""
    for length in range(len(secret) - 1, SHORTEST_SECRET - 1, -1):
        if text.endswith(secret[:length]):
            text = text[:-length] + HIDDEN
        if text.startswith(secret[-length:]):
            text = HIDDEN + text[length:]
    return text


def _secrets_in(value: Any) -> set[str]:
    """The texts and numbers below a secret name."""
    found: set[str] = set()
    todo: list[tuple[Any, bool]] = [(value, False)]
    while todo:
        one, hidden = todo.pop()
        match one:
            case bool():
                pass
            case str() | int() if hidden and len(str(one)) >= SHORTEST_SECRET:
                found.add(str(one))
            case dict():
                todo += [(inner, hidden or is_secret(name)) for name, inner in one.items()]
            case list():
                todo += [(inner, hidden) for inner in one]
            case _:
                pass
    return found
