"""What a claim took, as SQLite told it.

It is read by whoever waits for it, not by the writer's thread: that one may go on with the next
call meanwhile.
"""

from __future__ import annotations

import msgspec

from taskyard.domain.task import Claimed
from taskyard.store.port import Claim
from taskyard.store.sqlite.found import ClaimedRow
from taskyard.store.sqlite.unreadable import UNREADABLE

_ROWS = msgspec.json.Decoder(list[ClaimedRow])


class Unread(msgspec.Struct, frozen=True):
    texts: list[str]  # JSON lists of ClaimedRow, one behind the other
    count: int
    ahead: frozenset[int]
    more: bool

    def read(self) -> Claim | None:
        """None: one of its rows cannot be read; who claims again by its number is told which."""
        try:
            tasks: list[Claimed] = [row for text in self.texts for row in _ROWS.decode(text)]
        except UNREADABLE:
            return None
        return Claim(tasks, self.ahead, more=self.more)
