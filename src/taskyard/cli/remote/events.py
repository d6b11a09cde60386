"""Server-sent events, line by line."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True):
    name: str
    data: str
    id: str | None  # of this event, or of the last one that had an id


class Events:
    """Puts them together; one that is cut off is none."""

    def __init__(self) -> None:
        self._name = "message"
        self._data: list[str] = []
        self._id: str | None = None

    def take(self, line: bytes) -> Event | None:
        """The event that this line ends, if it ends one."""
        text = line.decode(errors="replace").rstrip("\r\n")
        if not text:
            return self._ended()
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
            case _:
                pass  # a comment, or what this client has no use for
        return None

    def _ended(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data = "message", []
        return Event(name, "\n".join(data), self._id) if data else None
