"""A file system that remembers what was synced, so that a power cut can be played at any moment.

Every write, truncation and sync goes through to the disk and into a log. For a cut at a moment of
the log, `remains` builds the files as a disk might hold them then: everything that was synced, and
of what was not an arbitrary part.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec

PLAIN_DISK = apsw.vfs_names()[0]


class Write(msgspec.Struct, frozen=True):
    file: str
    offset: int
    data: bytes


class Truncate(msgspec.Struct, frozen=True):
    file: str
    size: int


class Sync(msgspec.Struct, frozen=True):
    file: str


class Delete(msgspec.Struct, frozen=True):
    file: str


class Acknowledged(msgspec.Struct, frozen=True):
    """The store has answered: from here on this must survive."""

    what: str


Event = Write | Truncate | Sync | Delete | Acknowledged


class RecordingDisk(apsw.VFS):
    """Becomes the default file system of SQLite until it is unregistered."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        super().__init__("recording-disk", PLAIN_DISK, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return _RecordingFile(PLAIN_DISK, name, flags, Path(path or "").name, self.events.append)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.events.append(Delete(Path(filename).name))


class _RecordingFile(apsw.VFSFile):
    def __init__(
        self,
        base: str,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        file: str,
        record: Callable[[Event], None],
    ) -> None:
        super().__init__(base, name, flags)
        self._file = file
        self._record = record

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._record(Write(self._file, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._record(Truncate(self._file, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._record(Sync(self._file))


def remains(events: list[Event], cut: int, dice: random.Random) -> dict[str, bytes]:
    """What a disk may hold after a power cut just before event number `cut`."""
    happened = events[:cut]
    synced = {event.file: at for at, event in enumerate(happened) if isinstance(event, Sync)}
    files: dict[str, bytearray] = {}
    for at, event in enumerate(happened):
        if isinstance(event, Delete):
            files.pop(event.file, None)
        if not isinstance(event, (Write, Truncate)):
            continue
        image = files.setdefault(event.file, bytearray())
        if at < synced.get(event.file, -1) or dice.random() < 0.5:
            _apply(image, event)
    return {name: bytes(image) for name, image in files.items()}


def _apply(image: bytearray, event: Write | Truncate) -> None:
    if isinstance(event, Truncate):
        del image[event.size :]
        return
    missing = event.offset - len(image)
    if missing > 0:
        image.extend(bytes(missing))
    image[event.offset : event.offset + len(event.data)] = event.data
