"""How the API says things: instants as RFC 3339 with microseconds, stored JSON as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from taskyard.domain.clock import Instant, as_datetime
from taskyard.engine.redact import HIDDEN, is_secret
from taskyard.options import instant
from taskyard.server.gate import SLASH
from taskyard.server.problems import Refusal

Moment = Annotated[str, msgspec.Meta(description="RFC 3339, UTC, with microseconds")]


def iso(at: Instant) -> str:
    return as_datetime(at).isoformat(timespec="microseconds").replace("+00:00", "Z")


def iso_or_none(at: Instant | None) -> str | None:
    return None if at is None else iso(at)


def iso_of_seconds(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def instant_of(moment: datetime | None, path: str) -> Instant | None:
    """What a caller said; without a zone it would be another moment on every machine."""
    if moment is not None and moment.tzinfo is None:
        told = "a moment needs a time zone, as in 2030-05-01T12:00:00Z"
        raise Refusal(422, "invalid", told, path=path)
    return instant(path.rpartition(".")[2], moment)


def name_in(path: str) -> str:
    """A name that came as part of a path, which may have a slash."""
    return path.replace(SLASH, "/")


def json_of(text: str | None) -> Any:
    """Stored JSON; what is no JSON stays a text."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def is_hidden_in(value: Any) -> bool:
    """Whether a secret is there as it is shown, not as it is."""
    todo: list[tuple[Any, bool]] = [(value, False)]
    while todo:
        match todo.pop():
            case str() as text, secret:
                if (secret and text == HIDDEN) or f":{HIDDEN}@" in text:
                    return True
            case dict() as inner, secret:
                todo += [(one, secret or is_secret(name)) for name, one in inner.items()]
            case list() as inner, secret:
                todo += [(one, secret) for one in inner]
            case _:
                pass
    return False
