"""A task, or what was taken of a rate, on its way from one store to another."""

from __future__ import annotations

import msgspec

from taskyard.domain.clock import Instant, micros, seconds
from taskyard.domain.state import TERMINAL, State
from taskyard.domain.task import Task, Until


class Bucket(msgspec.Struct, frozen=True):
    """What has been taken of the rate of a key, or of a lane: see domain/rate.py."""

    name: str
    full_at: Instant
    of_lane: bool = False


class Moved(msgspec.Struct, frozen=True):
    """A task, with what its store knows beyond it. Its number and its place come with it."""

    task: Task
    dedup_until: Until | None = None
    dedup_kept: bool = False  # it is the one that keeps its dedup key now
    rank: int = 0  # of a queued one, by which its lane orders it
    unmet: tuple[str, ...] = ()  # of those it depends on: whose end it still waits for

    @property
    def _waits_for_others(self) -> bool:
        return self.task.waits_for > 0 and self.task.state in (State.PENDING, State.PAUSED)

    def settled(self) -> Moved:
        """Without what belongs to the store it is in: the same in every store."""
        task = self.task
        return msgspec.structs.replace(
            self,
            rank=self.rank if task.state is State.QUEUED else 0,
            unmet=self.unmet if self._waits_for_others else (),
            task=msgspec.structs.replace(
                task,
                timeout=seconds(micros(task.timeout)),
                requires=tuple(sorted(task.requires)),
                started_at=task.started_at if task.state in TERMINAL else None,
                parked_on=None,  # nothing runs, so no key is held
                asked=None,
                error=None,  # follows from its failures
            ),
        )
