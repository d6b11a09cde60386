"""What --json prints: one document on stdout, times as ISO 8601, payloads as they are."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from taskyard.cli.text import clean_json
from taskyard.domain.clock import Instant, as_datetime
from taskyard.domain.task import Task

_TIMES = ("created_at", "run_at", "deadline", "started_at", "ended_at", "at", "paused_until")
_TIMES_OF_NODES = ("registered_at", "seen_at")


def print_json(data: object) -> None:
    text = json.dumps(data, indent=2, ensure_ascii=False)
    sys.stdout.write(f"{clean_json(text)}\n")
    sys.stdout.flush()


def print_json_line(data: object) -> None:
    """One of many documents, each on its line, for who reads them as they come."""
    sys.stdout.write(f"{clean_json(json.dumps(data, ensure_ascii=False))}\n")
    sys.stdout.flush()


def plain(value: object) -> Any:
    """A value of the domain as JSON data."""
    data = msgspec.to_builtins(value)
    return _dated(data) if isinstance(data, dict) else data


def task_data(task: Task) -> dict[str, Any]:
    """What is unset is left out: a server does not tell everything of the tasks of a list."""
    data: dict[str, Any] = plain(task)
    for name in ("payload", "result", "checkpoint"):
        if data.get(name) is not None:
            data[name] = parsed(data[name])
    if "failures" in data:
        data["failures"] = [_dated(failure) for failure in data["failures"]]
    return data


def parsed(text: str) -> Any:
    """JSON that was stored as text; what is no JSON stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _dated(data: dict[str, Any]) -> dict[str, Any]:
    for name in (*_TIMES, *_TIMES_OF_NODES):
        if isinstance(data.get(name), int):
            data[name] = iso(data[name])
    return data


def iso(at: Instant) -> str:
    return as_datetime(at).isoformat(timespec="microseconds").replace("+00:00", "Z")


def pretty(text: str | None) -> str:
    """Stored JSON for people."""
    return "null" if text is None else json.dumps(parsed(text), indent=2, ensure_ascii=False)
