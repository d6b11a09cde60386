"""The store port: one verb for each thing that can happen to a task, a lane, a key or a node.

Every verb is one atomic step (one transaction, one script). Verbs that act for an attempt are
fenced by (no, attempt) and the lease that claimed it; verbs that act for a node are fenced by its
lease.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from taskyard.domain.clock import SECOND, Instant
from taskyard.domain.cron import Cron, CronEntry, Ticks
from taskyard.domain.explain import Explanation
from taskyard.domain.lane import Audited, Key, KeyRule, Lane, LaneChange
from taskyard.domain.logs import PAGE_LINES, LogLine, LogMark, LogPage, MovedLine
from taskyard.domain.moved import Bucket, Moved
from taskyard.domain.node import Hold, Lease, NewNode, News, Node, Usage
from taskyard.domain.outcome import Finished, Stale, Verdict
from taskyard.domain.rate import Rate
from taskyard.domain.retention import Retention
from taskyard.domain.state import State
from taskyard.domain.statistics import Count
from taskyard.domain.task import (
    Claimed,
    Enqueue,
    NewTask,
    Page,
    Progress,
    Task,
    TaskError,
    TaskQuery,
)

CLOCK_SLACK = 5 * SECOND  # how far a later number may have an earlier time
PRUNE_LIMIT = 500  # ended tasks a step of prune looks at: some milliseconds
PRUNE_LINES = 20_000  # of their logs that go in a step, about; then the next one goes on with them


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    lease: Lease
    number: int  # grows with each request of this lease; the same number asks for the same answer
    room: int
    ahead: int = 0


class Claim(msgspec.Struct, frozen=True):
    tasks: list[Claimed]
    ahead: frozenset[int] = frozenset()  # numbers of those claimed beyond the node's free slots
    more: bool = False  # the search stopped early: ask again at once
    refused: str | None = None  # why the node may claim nothing


class Turn(msgspec.Struct, frozen=True):
    finished: list[Finished | Stale]
    claim: Claim


Answered = Callable[[int], Awaitable[None]]  # with the number of tasks claimed, at most


async def nobody_asks(_claimed: int) -> None:
    pass


class Promoted(msgspec.Struct, frozen=True):
    count: int  # things that waited for this moment: tasks, keys and lanes
    next_due: Instant | None  # when the next of them will be there


class Mark(msgspec.Struct, frozen=True):
    """How far a run of prune has come."""

    stage: str  # a state, or the audit trail
    place: str = ""  # behind which to go on, in the store's own words; empty: from the beginning
    line: int | None = None  # of the audit trail, that tells of this run
    removed: int = 0


class PruneStep(msgspec.Struct, frozen=True):
    tasks: int  # removed by this step, or to be removed
    audit: int = 0  # lines of the audit trail
    mark: Mark | None = None  # for the next step; None: the run is over


class Rescued(msgspec.Struct, frozen=True):
    node: str
    lease: Lease
    verdicts: list[Verdict]


class YardPause(msgspec.Struct, frozen=True):
    until: Instant | None  # None: until somebody lets it go on


class Cancellation(StrEnum):
    DONE = "cancelled"  # it was waiting and is cancelled now
    ASKED = "asked"  # it runs and its body has been asked to stop


class Pausing(StrEnum):
    DONE = "paused"  # it was waiting and is paused now
    ASKED = "asked"  # it runs and its body has been asked to pause


class Ending(msgspec.Struct, frozen=True):
    """What someone who waits for a task needs to know when it has ended."""

    id: str
    state: State
    result: str | None = None
    error: TaskError | None = None


class Check(msgspec.Struct, frozen=True):
    """One line of `doctor`."""

    name: str
    ok: bool
    text: str


class Schema(msgspec.Struct, frozen=True):
    """What is in the store, and what this release brings."""

    version: int  # 0: there is no yard
    newest: int
    current: bool


class Hint(StrEnum):
    """Something may have changed. Hints may be lost, doubled or wrong: they cost latency only."""

    CHANGED = "changed"


class Store(Protocol):
    """Tasks survive here. All times are the store's own."""

    @property
    def in_order(self) -> bool:
        """Whether of two turns the one that was begun first is done, and answered, first."""

    # --- life ---

    async def exists(self) -> bool:
        """Whether there is a yard here already; opens, makes and changes nothing."""

    async def schema(self) -> Schema:
        """How far the schema here is from that of this release; makes and changes nothing."""

    async def open(self) -> None:
        """Connect, and bring the schema to this version; idempotent."""

    async def close(self) -> None:
        """Finish what was accepted and disconnect; idempotent."""

    async def now(self) -> Instant:
        """The store's clock."""

    async def diagnose(self) -> Sequence[Check]:
        """Look at everything that could make this store unsafe or slow."""

    def listen(self, wake: Callable[[Hint], None]) -> Callable[[], None]:
        """Call `wake` on the event loop when something may have changed; returns how to stop."""

    # --- tasks ---

    async def enqueue(self, tasks: Sequence[NewTask], *, by: Hold | None = None) -> list[Enqueue]:
        """Save these tasks, all or none; `by` makes it hold only while that attempt is accepted."""

    async def claim(self, request: ClaimRequest) -> Claim:
        """Take tasks that may run on this node now, in lane order, each under a new attempt."""

    async def finish(self, verdicts: Sequence[Verdict]) -> list[Finished | Stale]:
        """End these attempts and give their room back; a stale one changes nothing."""

    async def turn(
        self,
        verdicts: Sequence[Verdict],
        request: ClaimRequest,
        answered: Answered = nobody_asks,
    ) -> Turn:
        """Finish, then claim: the same as one after the other, in one step if the store can.

        `answered` is awaited when all is done but to read the answer, which takes a while: the next
        call can be on its way meanwhile.
        """

    async def mark_started(self, holds: Sequence[Hold]) -> None:
        """Tell that these attempts, claimed ahead, have started."""

    async def report(self, hold: Hold, progress: Progress) -> bool:
        """Keep how far an attempt has come; False if it is no longer the accepted one."""

    async def checkpoint(self, hold: Hold, data: str) -> bool:
        """Keep what the next attempt may go on from; False if this is not the accepted one."""

    async def append_logs(self, pages: Sequence[LogPage]) -> list[bool]:
        """Keep what these attempts have said, and drop what is kept no longer.

        False for each that is no longer the accepted one: of that nothing is kept.
        """

    async def promote(self, limit: int = 1000) -> Promoted:
        """Do what waits for a moment that has come: queue tasks that are due, let those be looked
        at that wait for the rate of a key, go on with lanes and a yard that were paused until now.
        """

    async def expire(self, limit: int = 1000) -> int:
        """Fail the waiting tasks whose deadline has passed.

        All that are found late expire before those who depend on one of them are told: a dependent
        that is late too has expired, and is not cancelled.
        """

    async def rescue(self, dead: Sequence[Lease] = (), *, ended: bool = True) -> list[Rescued]:
        """Take back the tasks of these proven dead leases and, if asked, of all that ran out."""

    async def cancel(self, task_id: str, *, actor: str) -> Cancellation:
        """Cancel a waiting task, or ask a running one to stop."""

    async def pause(self, task_id: str, *, actor: str) -> Pausing:
        """Pause a waiting task, or ask a running one to pause."""

    async def resume(self, task_id: str, *, actor: str) -> None:
        """Let a paused task wait again where it stood, or take back the wish that it pause."""

    async def retry(self, task_id: str, *, actor: str) -> None:
        """Give a failed or cancelled task a new life with a full budget."""

    async def prioritize(self, task_id: str, priority: int, *, actor: str) -> None:
        """Change the place of a waiting task."""

    async def explain(self, task_id: str) -> Explanation:
        """Say which condition of a claim keeps a task waiting."""

    async def get(self, task_id: str) -> Task | None:
        """Everything about one task."""

    async def task_logs(
        self, task_id: str, *, after: LogMark | None = None, limit: int = PAGE_LINES
    ) -> list[LogLine]:
        """What attempts of a task have said, the oldest first."""

    async def find(self, query: TaskQuery) -> list[Task]:
        """Tasks by filter, newest first, with a stable cursor.

        In the order of their numbers, and times follow numbers: where the store's clock was set
        back by more than CLOCK_SLACK, `since` and `until` may leave out tasks of that time.
        """

    async def page(self, query: TaskQuery) -> Page:
        """The same tasks without what may be large, as far as one short search finds them.

        A page may be short, or empty, although there is a next one: for what no index knows a store
        looks at so many tasks and no more. `find` searches on until its page is full.
        """

    async def endings(self, task_ids: Sequence[str]) -> list[Ending]:
        """Those of these tasks that have ended."""

    async def counts(self) -> Mapping[State, int]:
        """How many tasks are in each state."""

    # --- lanes, keys, the yard ---

    async def lanes(self) -> list[Lane]:
        """All lanes with what waits and runs in them."""

    async def set_lane(self, name: str, change: LaneChange, *, actor: str) -> Lane:
        """Change a lane, making it if it is new; takes effect with the next claim."""

    async def keys(self, limit: int = 100) -> list[Key]:
        """The keys that are held or waited for."""

    async def key_rules(self) -> list[KeyRule]:
        """The limits that differ from 1."""

    async def set_key_rule(
        self, pattern: str, limit: int | None, *, rate: Rate | None = None, actor: str
    ) -> None:
        """Set limit and rate of a key or of each key with a prefix; None removes the rule."""

    async def pause_yard(self, paused: bool, *, until: Instant | None = None, actor: str) -> None:
        """Start nothing new in any lane, perhaps until some moment, or go on."""

    async def yard_paused(self) -> YardPause | None:
        """Whether nothing new is started in any lane, and until when."""

    # --- nodes ---

    async def register(self, node: NewNode) -> Lease:
        """Make a node ready under a new lease; an older incarnation may claim no more."""

    def beat(self, lease: Lease, *, timeout: float, usage: Usage | None = None) -> News:
        """Renew a lease. Blocking, callable from any thread: it must not need the event loop."""

    async def news(self, lease: Lease) -> News:
        """What a beat would bring back, without the write."""

    async def holds(self, lease: Lease) -> list[Hold]:
        """Everything that runs under this lease, as the store sees it; may take longer."""

    async def drain(self, lease: Lease) -> None:
        """Claim nothing more under this lease; what runs goes on."""

    async def retire(self, lease: Lease) -> None:
        """End a lease; tasks that still run under it go back uncharged and in place."""

    async def nodes(self) -> list[Node]:
        """All nodes that hold a lease or have not been rescued yet."""

    # --- upkeep ---

    async def take_duty(self, name: str, holder: Lease, seconds: float) -> bool:
        """Become or stay the one who does this duty for so long."""

    async def prune(
        self,
        retention: Retention,
        *,
        actor: str,
        after: Mark | None = None,
        limit: int = PRUNE_LIMIT,
        dry_run: bool = False,
    ) -> PruneStep:
        """Remove what has been kept long enough, as far as so many looks find it.

        A run is as many steps as it takes, and one line of the audit trail, which moves up with
        each step that removes something. A dry run counts tasks and changes nothing.
        """

    # --- cron ---

    async def crons(self) -> list[CronEntry]:
        """All periodic tasks, by name."""

    async def set_cron(self, cron: Cron, next_at: Instant | None, *, actor: str) -> bool:
        """Keep this entry, in place of one of its name; False if that one stays.

        It stays if it is the same, or if this one is declared by a program and that one is an
        operator's.
        """

    async def drop_cron(self, name: str, *, actor: str) -> bool:
        """Forget an entry; False if there is none."""

    async def fire_cron(
        self, name: str, due: Instant, tasks: Sequence[NewTask], found: Ticks
    ) -> list[Enqueue] | None:
        """Start what was found to be due: save these tasks, if the entry still waits for `due` and
        is not paused.

        It waits for `found.next_at` then. None: another one was faster, and nothing was done.
        """

    # --- statistics ---

    async def tally(self, counts: Sequence[Count]) -> None:
        """Add these to the figures of this hour."""

    async def tallied(self, since: Instant) -> list[Count]:
        """What was added since the hour of this moment, summed up."""

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[Audited]:
        """Who did what, newest first."""

    async def note(self, action: str, subject: str, detail: str, *, actor: str) -> None:
        """Put a line on the audit trail, about something that is done outside of the store."""

    # --- copying ---

    async def export(self, *, after: int | None = None, limit: int = 100) -> list[Moved]:
        """Tasks with all that another store needs to go on with them, newest first."""

    async def buckets(self) -> list[Bucket]:
        """What has been taken of rates and is missing now."""

    async def import_tasks(self, tasks: Sequence[Moved]) -> None:
        """Take tasks over from another store, as they are; what is here already stays.

        Those a task depends on come before it.
        """

    async def export_logs(
        self, *, after: tuple[int, int, int] | None = None, limit: int = PAGE_LINES
    ) -> list[MovedLine]:
        """What all attempts have said, by task, attempt and number: `after` is the last one's."""

    async def import_logs(self, lines: Sequence[MovedLine]) -> None:
        """Take lines over from another store; what is here already stays."""

    async def import_settings(
        self,
        *,
        lanes: Sequence[Lane] = (),
        rules: Sequence[KeyRule] = (),
        audit: Sequence[Audited] = (),
        crons: Sequence[CronEntry] = (),
        buckets: Sequence[Bucket] = (),
    ) -> None:
        """Take over lanes, rules, periodic tasks, and the audit trail from its beginning on.

        Buckets come with, or after, the lanes and rules that give the rates.
        """
