"""What may be seen of a task's arguments and of what bodies say: secrets are hidden, and in logs
long values cut.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

HIDDEN = "***"
LONGEST_TEXT = 200
MOST_ITEMS = 20
DEEPEST = 6
DEEPEST_SHOWN = 100

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
_LOGIN = re.compile(  # a password may have an @
    r"""(?<=://)([^/\s:@]*):[^/\s@]+(?:@[^/\s@"',;]+)*(?=@)"""
)
_NAME = re.compile(r"""(?<![\w-])([\w-]++)(\\*+["']?\s*+[=:]\s*+)""")  # and what is behind it
_QUOTED = (  # within a text in quotes: up to as many backslashes as it began with; if cut, all
    r"""(?:(?P<depth>\\+)(?P<quote>["'])(?:.*?(?<!\\)(?P=depth)(?P=quote)|.*)"""
    r"""|"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?)"""
)
_TEXT = re.compile(rf"[A-Za-z]{{0,2}}{_QUOTED}", re.DOTALL)  # b'…' too
_CALL = re.compile(r"[\w.]*+[(\[{]")  # or a list
_PART = re.compile(rf"{_QUOTED}|(?P<opens>[(\[{{])|[)\]}}]", re.DOTALL)
_WORD = re.compile(r"""[^\s,;&)\]}"']+""")
_NOTICED = re.compile(r"[=:]|bearer|basic", re.IGNORECASE)  # else there is nothing to hide
_SCHEME = re.compile(r"\b(Basic|Bearer)\s+[\w.~+/=-]{8,}", re.IGNORECASE)


def hide(*words: str) -> None:
    """Hide also what has one of these words in its name: `hide("iban")` for `customer_iban`."""
    _SECRETS.update(word.lower() for word in words)


def redacted(payload: str) -> Any:
    """The arguments of a task as plain data for a log."""
    try:
        return _shown(msgspec.json.decode(payload), 0)
    except msgspec.DecodeError:
        return "(not JSON)"


def redacted_text(text: str) -> str:
    """A text in which the values of secrets are hidden where they can be told by their names, as in
    `token=…` and `"token": "…"`, and logins in URLs and headers.
    """
    if _NOTICED.search(text) is None:
        return text
    text = _SCHEME.sub(rf"\1 {HIDDEN}", without_logins(text))
    parts, at = list[str](), 0
    for found in _NAME.finditer(text):
        name, gap = found.groups()
        if found.start() >= at and ("=" in gap or gap[0] in "\"'\\") and is_secret(name):
            end = _end_of_value(text, found.end())
            if end > found.end():
                parts += (text[at : found.end()], HIDDEN)
                at = end
    return "".join((*parts, text[at:]))


def _end_of_value(text: str, at: int) -> int:
    """Where the value ends that begins here: a text in quotes, what is in brackets, or a word."""
    if found := _TEXT.match(text, at):
        return found.end()
    if not _CALL.match(text, at):
        found = _WORD.match(text, at)
        return found.end() if found else at
    depth = 0
    for part in _PART.finditer(text, at):
        if part["opens"]:
            depth += 1
        elif part[0] in ")]}":
            depth -= 1
            if depth == 0:
                return part.end()
    return len(text)  # cut


def redacted_value(name: str, value: object) -> object:
    """A value that goes by this name; a text is not cut."""
    if is_secret(name):
        return HIDDEN
    return value if isinstance(value, str) else _shown(value, 0)


def without_secrets(value: Any, depth: int = 0) -> Any:
    """Plain data as it may be seen outside of logs: whole, but for secrets."""
    match value:
        case str():
            return without_logins(value)
        case dict() | list() if depth == DEEPEST_SHOWN:
            return "…"
        case dict():
            return {
                name: HIDDEN if is_secret(name) else without_secrets(one, depth + 1)
                for name, one in value.items()
            }
        case list():
            return [without_secrets(one, depth + 1) for one in value]
        case _:
            return value


def without_logins(text: str) -> str:
    """Without the passwords of URLs."""
    return _LOGIN.sub(rf"\1:{HIDDEN}", text)


def _shown(value: Any, depth: int) -> Any:
    match value:
        case str():
            return _cut(without_logins(value))
        case dict() | list() if depth == DEEPEST:
            return "…"
        case dict():
            shown = {
                name: HIDDEN if is_secret(str(name)) else _shown(one, depth + 1)
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
