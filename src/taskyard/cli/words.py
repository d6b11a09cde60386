"""Turns `url=https://… pages=3` into a payload."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from taskyard.domain.errors import InvalidArguments


def payload_from(parameters: Mapping[str, Any], args: str | None, words: Sequence[str]) -> str:
    """The arguments as a JSON object: from --args or from name=value words."""
    if args is not None and words:
        raise InvalidArguments("give the arguments either with --args or as name=value, not both")
    return _read(args) if args is not None else _from_words(parameters, words)


def _read(args: str) -> str:
    """--args takes the object itself, @file, or - for stdin."""
    try:
        if args == "-":
            return sys.stdin.read()
        return Path(args[1:]).read_text("utf-8") if args.startswith("@") else args
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArguments(f"--args {args} cannot be read: {error}") from None


def _from_words(parameters: Mapping[str, Any], words: Sequence[str]) -> str:
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise InvalidArguments(f"arguments are given as name=value, not {word!r}")
        if name in values:
            raise InvalidArguments(f"argument {name} is given twice")
        values[name] = _value(text, parameters.get(name, Any))
    return json.dumps(values, ensure_ascii=False)


def _value(text: str, kind: Any) -> Any:
    """JSON if the parameter takes that, else a string if it takes that: `5` may be either."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if not _takes(value, kind) and _takes(text, kind) else value


def _takes(value: Any, kind: Any) -> bool:
    try:
        msgspec.json.decode(json.dumps(value), type=kind)
    except (msgspec.MsgspecError, ValueError):
        return False
    return True
