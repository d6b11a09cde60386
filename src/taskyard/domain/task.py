"""The task: before it is saved, as a worker holds it, and as anyone may look at it."""

from __future__ import annotations

import os
import time
from enum import StrEnum

import msgspec

from taskyard.domain.clock import FIRST, LAST, LONGEST, Instant
from taskyard.domain.errors import InvalidOption, PayloadTooLarge
from taskyard.domain.node import Hold, Lease
from taskyard.domain.state import Reason, State
from taskyard.domain.trace import Origin, is_trace

DEFAULT_LANE = "default"
DEFAULT_PRIORITY = 5
HIGHEST_PRIORITY = 1
LOWEST_PRIORITY = 10
DEFAULT_TIMEOUT = 7200.0
DEFAULT_RETRIES = 3
MAX_PAYLOAD_BYTES = 1_000_000
MAX_RESULT_BYTES = 1_000_000
MAX_NAME = 200
MAX_KEYS = 16
MAX_DEPENDENCIES = 10_000
MAX_CHECKPOINT_BYTES = 1_000_000
MAX_CHARGED = 1_000_000
MAX_PAGE = 1000  # tasks listed at once
SURELY_FITS = MAX_PAYLOAD_BYTES // 4  # characters of a payload, of four bytes at most
SHORT_PAYLOAD = 2_000  # bytes; a longer one is not listed

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]  # ten bits each
_OF_BYTES = (_ALPHABET * 8).encode()  # a letter for each byte
_NOISE = 16  # letters, of five bits each
_AT_ONCE = 1024  # noises
_noises: list[str] = []  # for the next ids
_noises_of = [0]  # the process that fetched them
_last_time = (0, "")  # in milliseconds, and as text


def new_task_id() -> str:
    """Time-ordered (so that indexes grow at their end), made by the caller.

    The caller makes the id so that an enqueue whose answer was lost can simply be repeated.
    """
    # Every enqueue waits for this: the operating system is asked for noise once for many ids.
    now = time.time_ns() // 1_000_000
    time_ms, text = _last_time
    if now != time_ms:
        text = _as_text(now)
    try:
        return text + _noises.pop()
    except IndexError:
        return text + _more_noise()


def _as_text(time_ms: int) -> str:
    global _last_time  # noqa: PLW0603 - one for the process
    if os.getpid() != _noises_of[0]:  # a fork of which Python was not told
        _forget_noise()
    pair = _PAIRS
    text = (
        f"{pair[time_ms >> 40]}{pair[time_ms >> 30 & 1023]}{pair[time_ms >> 20 & 1023]}"
        f"{pair[time_ms >> 10 & 1023]}{pair[time_ms & 1023]}"
    )
    _last_time = (time_ms, text)
    return text


def _more_noise() -> str:
    _noises_of[0] = os.getpid()
    letters = bytearray(os.urandom(_AT_ONCE * (_NOISE + 1)).translate(_OF_BYTES))
    letters[_NOISE :: _NOISE + 1] = b" " * _AT_ONCE
    # Ids of one millisecond ascend as well, so that an index grows at its end for many at once.
    noises = sorted(letters.decode().split(), reverse=True)
    first = noises.pop()
    _noises.extend(noises)
    return first


def _forget_noise() -> None:
    """A child has that of its parent, who uses it."""
    _noises.clear()
    _noises_of[0] = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_noise)


class Until(StrEnum):
    """How long a dedup key is kept."""

    START = "start"
    END = "end"


class Clash(StrEnum):
    """What happens to an enqueue whose dedup key is already kept by another task."""

    KEEP = "keep"  # nothing
    REPLACE = "replace"  # the other, if it waits and is of the same kind, gets this payload
    DEBOUNCE = "debounce"  # the same, and if it waits for its time, that moves to the later one


class OnFailure(StrEnum):
    """What becomes of a task when one that it depends on fails or is cancelled."""

    CANCEL = "cancel"
    RUN = "run"


class Dedup(msgspec.Struct, frozen=True):
    key: str
    until: Until = Until.END
    clash: Clash = Clash.KEEP


class NewTask(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A task that is not saved yet."""

    kind: str
    payload: str  # JSON
    id: str = msgspec.field(default_factory=new_task_id)
    lane: str = DEFAULT_LANE
    priority: int = DEFAULT_PRIORITY
    keys: tuple[str, ...] = ()
    group: str = ""
    dedup: Dedup | None = None
    refuse_if_held: bool = False  # rather than wait for a key that has no room now
    depends_on: tuple[str, ...] = ()  # ids of tasks that must have ended first
    on_failure: OnFailure = OnFailure.CANCEL
    requires: tuple[str, ...] = ()  # capabilities a node must have
    max_charged: int = DEFAULT_RETRIES + 1
    timeout: float = DEFAULT_TIMEOUT
    run_at: Instant | None = None  # None: at once
    delay: float | None = None  # seconds from now, by the store's clock
    deadline: Instant | None = None  # not to be started after this
    trace: str | None = None  # the span it comes from, as a W3C traceparent

    def check(self, *, max_payload: int = MAX_PAYLOAD_BYTES) -> None:
        """Refuse what no store could run; the message says what to do instead."""
        check_name("kind", self.kind)
        check_name("lane", self.lane)
        if self.keys or self.dedup is not None or self.depends_on or self.group or self.requires:
            self._check_names()
        check_priority(self.priority)
        if not 0 < self.timeout <= LONGEST:
            raise InvalidOption(
                f"timeout must be more than 0 seconds and at most 100 years, not {self.timeout:g}"
            )
        if not 1 <= self.max_charged <= MAX_CHARGED:
            raise InvalidOption(
                f"max_charged must be 1 or more and at most {MAX_CHARGED:,}, not {self.max_charged}"
            )
        if self.delay is not None or self.run_at is not None or self.deadline is not None:
            self._check_times()
        self.check_own(max_payload=max_payload)

    def check_own(self, *, max_payload: int = MAX_PAYLOAD_BYTES) -> None:
        """The part of `check` for what tasks do not have in common with others of their sort."""
        check_name("id", self.id)
        if self.trace is not None and not is_trace(self.trace):
            raise InvalidOption(
                "trace must be a W3C traceparent, 00-<trace id>-<span id>-<flags> in lower case, "
                f"not {self.trace[:60]!r}"
            )
        size = len(self.payload)
        if not self.payload.isascii():
            size = len(self.payload.encode())
        if size > max_payload:
            raise PayloadTooLarge(
                f"the payload of this {self.kind} task is {size:,} bytes, the limit is "
                f"{max_payload:,}; store the data elsewhere and pass a reference to it"
            )

    def _check_names(self) -> None:
        if len(self.keys) > MAX_KEYS:
            raise InvalidOption(f"a task holds at most {MAX_KEYS} keys, not {len(self.keys)}")
        for key in self.keys:
            check_name("key", key)
        if len(set(self.keys)) != len(self.keys):
            raise InvalidOption(f"the same key is named twice: {', '.join(self.keys)}")
        if self.dedup is not None:
            check_name("dedup key", self.dedup.key)
        if self.group:
            check_name("group", self.group)
        for capability in self.requires:
            check_name("capability", capability)
        if len(self.depends_on) > MAX_DEPENDENCIES:
            raise InvalidOption(
                f"a task depends on at most {MAX_DEPENDENCIES:,} others, not "
                f"{len(self.depends_on):,}; let tasks in between gather them"
            )
        for task_id in self.depends_on:
            check_name("id in depends_on", task_id)
        if len(set(self.depends_on)) != len(self.depends_on):
            raise InvalidOption("depends_on names the same task twice")
        if self.id in self.depends_on:
            raise InvalidOption("a task cannot depend on itself")

    def _check_times(self) -> None:
        if self.delay is not None and not 0 <= self.delay <= LONGEST:
            raise InvalidOption(
                f"delay must be 0 seconds or more and at most 100 years, not {self.delay:g}"
            )
        if self.delay is not None and self.run_at is not None:
            raise InvalidOption("give either delay or run_at, not both")
        for what, instant in (("run_at", self.run_at), ("deadline", self.deadline)):
            if instant is not None and not FIRST <= instant <= LAST:
                raise InvalidOption(f"{what} is not within the years 1 to 9999: {instant}")


def check_priority(priority: int) -> None:
    if not HIGHEST_PRIORITY <= priority <= LOWEST_PRIORITY:
        raise InvalidOption(
            f"priority must be from {HIGHEST_PRIORITY} (first) to {LOWEST_PRIORITY} (last), "
            f"not {priority}"
        )


def check_name(what: str, name: str) -> None:
    if 0 < len(name) <= MAX_NAME and name.isprintable():
        return
    if not name:
        raise InvalidOption(f"{what} must not be empty")
    if len(name) > MAX_NAME:
        raise InvalidOption(f"{what} is longer than {MAX_NAME} characters: {name[:40]}…")
    raise InvalidOption(f"{what} contains a character that cannot be printed: {name!r}")


class TaskError(msgspec.Struct, frozen=True):
    """What a handler's failure leaves behind."""

    type: str
    message: str
    stack: str = ""

    def __post_init__(self) -> None:
        # A file name no codec knows puts lone surrogates into messages, and no store takes those:
        # the attempt could never be finished.
        for name in ("type", "message", "stack"):
            text: str = getattr(self, name)
            if not text.isascii():
                plain = text.encode("utf-8", "backslashreplace").decode()
                msgspec.structs.force_setattr(self, name, plain)


class FailedAttempt(msgspec.Struct, frozen=True):
    """One line of the log of attempts that did not end well."""

    attempt: int
    reason: Reason
    at: Instant
    started_at: Instant | None = None
    node: str | None = None
    error: TaskError | None = None


class Progress(msgspec.Struct, frozen=True):
    done: float
    total: float | None = None
    note: str = ""


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A task as its worker holds it: what running it needs, and the fence (no, attempt, lease)."""

    no: int
    id: str
    kind: str
    lane: str
    attempt: int
    charged: int
    max_charged: int
    timeout: float
    payload: str
    lease: Lease = 0  # that claimed it; 0: the store does not compare it
    losses: int = 0  # how often a node or a process died under it: more than 0 is a suspect
    waited: float = 0.0  # seconds from when it was due
    checkpoint: str | None = None  # JSON, of an earlier attempt
    origin: Origin | None = None  # if it carries a trace

    @property
    def hold(self) -> Hold:
        return Hold(self.no, self.attempt, self.lease)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this task, different for every other task."""
        return self.id


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A saved task with everything the store knows of it."""

    no: int  # the store's own number of the row
    id: str
    kind: str
    lane: str
    priority: int
    seq: int  # place among tasks of equal priority
    payload: str
    state: State
    reason: Reason
    keys: tuple[str, ...] = ()
    group: str = ""
    dedup: str | None = None
    requires: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    on_failure: OnFailure = OnFailure.CANCEL
    waits_for: int = 0  # how many of those it depends on have not ended
    attempt: int
    charged: int
    max_charged: int
    losses: int = 0
    timeout: float
    created_at: Instant
    run_at: Instant
    deadline: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    node: str | None = None
    asked: str | None = None  # "cancel" or "pause", while a running body is asked to stop
    parked_on: str | None = None  # the full key it was last seen waiting for
    progress: Progress | None = None
    checkpoint: str | None = None  # JSON
    result: str | None = None  # JSON
    error: TaskError | None = None
    failures: tuple[FailedAttempt, ...] = ()
    trace: str | None = None  # the span that enqueued it


class Enqueued(msgspec.Struct, frozen=True, tag="enqueued", gc=False):
    id: str


class Duplicate(msgspec.Struct, frozen=True, tag="duplicate"):
    """Nothing was stored: this task keeps the dedup key, or has the id already."""

    id: str
    changed: bool = False  # it got the payload, or the later time, of the one that was not stored


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    reason: str


Enqueue = Enqueued | Duplicate | Refused


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to list, newest first; `after` is the `no` of the last one seen."""

    state: State | None = None
    kind: str | None = None
    lane: str | None = None
    key: str | None = None
    since: Instant | None = None  # created then or later
    until: Instant | None = None  # created before
    limit: int = 50
    after: int | None = None

    def check(self) -> None:
        if not 1 <= self.limit <= MAX_PAGE:
            raise InvalidOption(f"limit must be from 1 to {MAX_PAGE}, not {self.limit}")


class TaskLine(msgspec.Struct, frozen=True, kw_only=True):
    """A task as a list shows it: without its result and checkpoint, its failed attempts but for the
    error of the last, the stack of that, and a payload that is not short."""

    no: int
    id: str
    kind: str
    lane: str
    priority: int
    state: State
    reason: Reason
    keys: tuple[str, ...] = ()
    group: str = ""
    attempt: int
    created_at: Instant
    run_at: Instant
    deadline: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    node: str | None = None
    asked: str | None = None
    parked_on: str | None = None
    progress: Progress | None = None
    error: TaskError | None = None
    payload: str | None = None  # None if it has more than SHORT_PAYLOAD bytes


class Page(msgspec.Struct, frozen=True):
    tasks: list[TaskLine]
    next: int | None  # `after` of the next page; None: there is none
