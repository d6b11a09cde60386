"""What worker, keeper and children say to each other: tagged values, each behind its length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from taskyard.domain.logs import Level
from taskyard.domain.outcome import Outcome
from taskyard.domain.task import Claimed, Enqueue, NewTask, Progress
from taskyard.engine.isolate.place import Place
from taskyard.engine.job import Stop
from taskyard.store.port import Ending

HEAD = 4
MAX_FRAME = 64_000_000

T = TypeVar("T")


class Message(msgspec.Struct, frozen=True, tag=True):
    pass


class Order(msgspec.Struct, frozen=True):
    """What a new child is to be."""

    place: Place
    memory_limit: int  # bytes; 0: none
    sys_path: list[str]
    log_levels: dict[str, int]
    least_kept: int  # level of the lines that are kept with their attempt


# --- worker to keeper ---


class Fork(Message, frozen=True, tag=True):
    """Make a child. Its end of a socket comes beside this message."""

    number: int
    order: Order


class Terminate(Message, frozen=True, tag=True):
    """SIGTERM to the process group of this child."""

    number: int


class End(Message, frozen=True, tag=True):
    """Kill this child and every descendant it has."""

    number: int


class Renewed(Message, frozen=True, tag=True):
    """Bodies may run until then (on the clock of leases) and not longer."""

    until: float


# --- keeper to worker ---


class Forked(Message, frozen=True, tag=True):
    number: int
    pid: int


class Gone(Message, frozen=True, tag=True):
    """This child is dead, and so are all of its descendants."""

    number: int
    status: int = 0  # as os.waitstatus_to_exitcode has it
    why: str = ""  # "": by itself, or because of End


# --- worker to child ---


class Begin(Message, frozen=True, tag=True):
    claimed: Claimed
    trace: str | None = None  # of its span


class Ask(Message, frozen=True, tag=True):
    """The body is to stop."""

    stop: Stop


class Pause(Message, frozen=True, tag=True):
    """The body is to end at its next checkpoint, or may go on after all."""

    wanted: bool


class Answer(Message, frozen=True, tag=True):
    number: int
    accepted: bool = True
    enqueued: list[Enqueue] = []
    endings: list[Ending] = []
    error: tuple[str, str] | None = None  # class and message


# --- child to worker ---


class Began(Message, frozen=True, tag=True):
    """The job has been read: what happens from now on is its doing."""


class Report(Message, frozen=True, tag=True):
    number: int
    progress: Progress


class Keep(Message, frozen=True, tag=True):
    """A checkpoint."""

    number: int
    data: str  # JSON


class Needed(Message, frozen=True, tag=True):
    """How have the tasks ended that this one depends on?"""

    number: int


class Children(Message, frozen=True, tag=True):
    """Tasks that the body enqueues."""

    number: int
    tasks: list[NewTask]


class Logged(Message, frozen=True, tag=True):
    logger: str
    level: int
    text: str
    fields: dict[str, Any] | None = None


class Said(Message, frozen=True, tag=True):
    """A line that is kept with the attempt."""

    level: Level
    text: str


class Done(Message, frozen=True, tag=True):
    outcome: Outcome
    resident: int = 0  # bytes of memory
    alone: bool = True  # False: the body has left processes behind
    spent: bool = False  # the child is not to be used again


ToKeeper = Fork | Terminate | End | Renewed
FromKeeper = Forked | Gone
ToChild = Begin | Ask | Pause | Answer
FromChild = Began | Report | Keep | Needed | Children | Logged | Said | Done

_encoder = msgspec.msgpack.Encoder(enc_hook=str)


def frame(message: Message) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(HEAD, "big") + body


class Frames(Generic[T]):
    """Bytes as they come in, messages as they are complete."""

    def __init__(self, kind: Any) -> None:
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(kind)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[T]:
        self._buffer += data
        while len(self._buffer) >= HEAD:
            size = int.from_bytes(self._buffer[:HEAD], "big")
            if size > MAX_FRAME:
                raise ValueError(f"a message of {size:,} bytes")
            if len(self._buffer) < HEAD + size:
                return
            body = bytes(self._buffer[HEAD : HEAD + size])
            del self._buffer[: HEAD + size]
            yield self._decoder.decode(body)
