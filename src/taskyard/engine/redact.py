"""What of a task's arguments may be seen in logs: secrets are hidden, long values cut."""

from __future__ import annotations

import re
from typing import Any

import msgspec

HIDDEN = "***"
LONGEST_TEXT = 200
MOST_ITEMS = 20
DEEPEST = 6

_SECRETS = {
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "key",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "session",
    "signature",
    "token",
}

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LOGIN = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")


def hide(*words: str) -> None:
    """Hide also what has one of these words in its name: `hide("iban")` for `customer_iban`."""
    _SECRETS.update(word.lower() for word in words)


def redacted(payload: str) -> Any:
    """The arguments of a task as plain data for a log."""
    try:
        return _shown(msgspec.json.decode(payload), 0)
    except msgspec.DecodeError:
        return "(not JSON)"


def _shown(value: Any, depth: int) -> Any:
    match value:
        case str():
            return _cut(_LOGIN.sub(rf"\1:{HIDDEN}", value))
        case dict() | list() if depth == DEEPEST:
            return "…"
        case dict():
            shown = {
                name: HIDDEN if is_secret(name) else _shown(one, depth + 1)
                for name, one in list(value.items())[:MOST_ITEMS]
            }
            return shown if len(value) <= MOST_ITEMS else {**shown, "…": len(value) - MOST_ITEMS}
        case list():
            items = [_shown(one, depth + 1) for one in value[:MOST_ITEMS]]
            return items if len(value) <= MOST_ITEMS else [*items, f"… {len(value)} in all"]
        case _:
            return value


def is_secret(name: str) -> bool:
    """By the words it is made of: `api_key`, `apiKey` and `KEYS` are, `monkey` is not."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return any(word in _SECRETS or word.removesuffix("s") in _SECRETS for word in words)


def _cut(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}… ({len(text):,} characters)"
