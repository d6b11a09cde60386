"""The span a task came from, as W3C Trace Context writes it: `00-<trace id>-<span id>-<flags>`."""

from __future__ import annotations

import re

import msgspec

LONGEST_HEADER = 512  # characters; a later version may add to the first 55

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_OURS = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


class Origin(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a claimed task came from."""

    trace: str  # the span that enqueued it
    at_once: bool  # it was due then


def is_trace(text: str) -> bool:
    return _OURS.fullmatch(text) is not None


def trace_in(header: str | None) -> str | None:
    """What a `traceparent` header names; None if it cannot be understood, which is no error."""
    if header is None or len(header) > LONGEST_HEADER:
        return None
    found = _FORM.fullmatch(header.strip())
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5] is not None):
        return None
    trace = f"00-{found[2]}-{found[3]}-{found[4]}"
    return trace if is_trace(trace) else None


def trace_id(trace: str) -> str:
    return trace[3:35]
