"""Where a list goes on: opaque to callers, the number of the last row for us."""

from __future__ import annotations

import base64
import binascii

from taskyard.server import limits
from taskyard.server.problems import Refusal


def written(no: int) -> str:
    return base64.urlsafe_b64encode(f"no:{no}".encode()).decode().rstrip("=")


def read(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    try:
        said = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        what, _, number = said.partition(":")
        no = int(number)
    except (ValueError, binascii.Error):
        raise _no_cursor() from None
    if what != "no" or not 0 <= no <= limits.MAX_NUMBER:
        raise _no_cursor()
    return no


def _no_cursor() -> Refusal:
    return Refusal(400, "bad_cursor", "this is no cursor of ours; begin without one", path="cursor")
