"""A task as a claim finds it, and as its worker gets it."""

from __future__ import annotations

from taskyard.domain.admission import Candidate
from taskyard.domain.clock import Instant
from taskyard.domain.task import Claimed

Place = tuple[int, int]


class Found(Candidate, array_like=True, frozen=True):
    """In the order of candidates in sql/claim.sql."""

    deadline: Instant | None = None
    rank: int = 0
    rotation: str | None = None  # the group, in a fair lane
    dedup_until: str | None = None

    @property
    def place(self) -> Place:
        return self.rank, self.seq


class ClaimedRow(Claimed, array_like=True, frozen=True):
    """In the order of load and whole in sql/claim.sql."""
