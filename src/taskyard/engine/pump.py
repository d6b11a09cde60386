"""Claimer and finisher in one: verdicts go to the store, tasks come back, in the same step.

While a call is under way bodies go on, and what ends meanwhile is written with the next call: the
busier the worker, the larger the groups. In a flood the next call begins as soon as there is an
answer, or before if the store keeps their order, so that the store need not wait for us. A step
that fails though the store can be reached may fail each time because of its claim: then the
verdicts are written apart from it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from taskyard.domain.errors import StoreError, StoreUnavailable
from taskyard.domain.node import Lease
from taskyard.domain.outcome import Released, Stale, Verdict, decide
from taskyard.domain.points import Point, reach
from taskyard.domain.task import Claimed
from taskyard.engine.hand import MAX_AHEAD, STARTED_LATE, Hand
from taskyard.engine.log import logger
from taskyard.engine.logbook import LogBook
from taskyard.engine.notifier import POLL_SECONDS, Bell
from taskyard.store.port import Claim, ClaimRequest, Store

MAX_BACKOFF = 5.0
ASK_AGAIN = 8  # claims; so often it is asked whether claiming ahead pays by now
LONGEST_END = 5.0
FORGETTING = 1.001  # from turn to turn: what it costs may change

log = logger("pump")

OnClaim = Callable[[Lease, list[Claimed], frozenset[int]], None]
OnEnd = Callable[[list[Verdict]], None]


_Chain = deque[asyncio.Task[None]]  # calls that were begun before the answer to the last was read


class Pump:
    def __init__(
        self,
        store: Store,
        hand: Hand,
        bell: Bell,
        logs: LogBook,
        *,
        may_claim: Callable[[], bool],
        more_end_soon: Callable[[], bool],
        on_claim: OnClaim,
        on_end: OnEnd,
    ) -> None:
        self._store = store
        self._hand = hand
        self._bell = bell
        self._logs = logs
        self._may_claim = may_claim
        self._more_end_soon = more_end_soon
        self._on_claim = on_claim
        self._on_end = on_end
        self._lease: Lease = 0
        self._number = 0
        self._hungry = True
        self._looked = 0.0
        self._shortest_turn = LONGEST_END  # seconds; of the last ones, about
        self._chain: _Chain | None = None  # while a call is under way
        self._looked_at_bodies = 0.0
        self._ahead_pays = True  # whether the last claim that could have brought some ahead did
        self._claiming = False
        self._doubted: list[ClaimRequest] = []  # of calls that were begun and not read
        self._apart = False
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self, lease: Lease) -> None:
        self.renew(lease)
        if self._task is None:
            self._claiming = True
            self._task = asyncio.create_task(self._main(), name="taskyard-pump")

    def renew(self, lease: Lease) -> None:
        """Go on under a new lease; requests are numbered within it."""
        self._lease = lease
        self._number = 0
        self._doubted = []
        self._hungry = True

    @property
    def in_doubt(self) -> bool:
        """Whether a claim has been sent whose answer has not been read."""
        return bool(self._doubted)

    @property
    def is_claiming(self) -> bool:
        return self._claiming and self._may_claim()

    async def restart(self) -> None:
        """Begin the loop anew. What it was doing is asked again: verdicts are fenced, and a claim
        that is in doubt keeps its number.
        """
        if self._task is None or self._stopping:
            return
        self._task.cancel()
        _, stuck = await asyncio.wait({self._task}, timeout=LONGEST_END)
        if stuck:
            log.critical("the claim loop cannot be ended; another one begins beside it")
        self._hungry = True
        self._task = asyncio.create_task(self._main(), name="taskyard-pump")

    def stop_claiming(self) -> None:
        self._claiming = False
        self._bell.ring()

    async def stop(self) -> None:
        """Write what there is to write, then end; idempotent."""
        self._stopping = True
        self._claiming = False
        self._bell.ring()
        if self._task is not None:
            await self._task
            self._task = None

    def add(self, verdict: Verdict) -> None:
        verdicts = self._hand.verdicts
        if not verdicts:
            self._bell.ring()  # while there is one to write, nobody waits for a ring
        verdicts.append(verdict)

    def give_back_ahead(self) -> None:
        """What has not begun need not wait here."""
        while self._hand.ahead:
            job = self._hand.ahead.popleft()
            self.add(decide(job.claimed, Released(), job.kind.retry))

    def hint(self) -> None:
        self._hungry = True
        self._bell.ring()

    async def _main(self) -> None:
        backoff = 0.05
        while not (self._stopping and not self._hand.verdicts):
            try:
                await self._step()
                backoff = 0.05
            except Exception as error:
                # Whatever it was, a worker whose pump has ended would hold its tasks for ever.
                if isinstance(error, StoreError):
                    log.error("store", error=str(error), code=error.code, again_in=backoff)
                else:
                    log.exception("pump", again_in=backoff)
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF)
                if self._stopping and backoff >= MAX_BACKOFF:
                    log.error("giving up", unwritten=len(self._hand.verdicts))
                    return

    async def _step(self) -> None:
        now = time.monotonic()
        for job in self._hand.overdue_ahead(now):
            self._hand.verdicts.append(decide(job.claimed, Released(), job.kind.retry))
        marks = self._hand.to_mark(now)
        if marks:
            await self._store.mark_started([job.claimed.hold for job in marks])
            self._hand.marked(marks)
        if self._hand.verdicts:
            await self._let_end()
        if self._apart and self._hand.verdicts:
            self._apart = False
            await self._finish()
        elif (wants := self._wants()) is not None:
            await self._turn(wants)
        elif self._hand.verdicts:
            await self._finish()
        else:
            rang = await self._bell.wait(self._patience())
            overdue = time.monotonic() - self._looked >= POLL_SECONDS
            self._hungry = self._hungry or rang or overdue

    async def _let_end(self) -> None:
        """Where nothing is claimed ahead, wait for bodies that end in a moment, if that takes less
        time than one turn more: what is written in two halves comes back in two halves, for ever.
        """
        if self._hand.ahead or self._shortest_turn < 2 * self._hand.run_seconds:
            return
        until = time.monotonic() + self._shortest_turn
        while self._more_end_soon() and time.monotonic() < until:  # noqa: ASYNC110 - they need the loop
            await asyncio.sleep(0)

    def _patience(self) -> float:
        watching = self._hand.ahead or self._hand.unmarked
        return STARTED_LATE if watching else POLL_SECONDS

    def _wants(self) -> ClaimRequest | None:
        """The claim to make now, if any: those that are in doubt are asked again first."""
        return self._doubted[0] if self._doubted else self._wants_beside(0)

    def _wants_beside(self, coming: int) -> ClaimRequest | None:
        """The same, where so many tasks are about to come."""
        if not self._claiming or not self._may_claim():
            return None
        room = self._hand.room_beside(coming)
        ahead = self._hand.free_reserve_beside(coming)
        if not (room or (ahead and self._ahead_pays)):
            return None
        if not (self._hungry or self._hand.verdicts):
            return None
        self._number += 1
        if not self._ahead_pays and self._number % ASK_AGAIN:
            ahead = 0  # a store looks at as many tasks as it is asked for, to no purpose
        self._looked = time.monotonic()
        return ClaimRequest(lease=self._lease, number=self._number, room=room, ahead=ahead)

    async def _turn(self, request: ClaimRequest) -> None:
        """With the calls that follow it: however one of them ends, none is left on its way."""
        chain: _Chain = deque()
        self._chain = chain
        try:
            await self._call(request)
            while chain:
                await chain[0]
                chain.popleft()
        except Exception:
            self._chain = None  # nothing follows any more
            if chain:  # the store may be doing it: what comes of it need not be asked again
                await asyncio.wait(chain, timeout=LONGEST_END)
            raise
        finally:
            self._chain = None
            for call in chain:
                call.cancel()  # what it was doing is asked again
            if chain:
                await asyncio.gather(*chain, return_exceptions=True)

    def ran_out(self) -> None:
        """Nothing runs or waits here: in a flood the next call is sent before the answer comes."""
        if self._store.in_order and len(self._doubted) == 1:
            [request] = self._doubted
            if len(self._hand.verdicts) >= MAX_AHEAD // 2:
                self._follow(request, request.room + request.ahead)

    def _follow(self, request: ClaimRequest, claimed: int) -> bool:
        """Begin the call that comes after this one, if there is one to make already."""
        if self._chain is None or (wants := self._wants_after(request, claimed)) is None:
            return False
        self._doubted.append(wants)
        self._chain.append(asyncio.create_task(self._call(wants), name="taskyard-pump-next"))
        return True

    async def _call(self, request: ClaimRequest) -> None:
        verdicts = self._take_verdicts()
        writing = self._hand.writing[-1]
        if request not in self._doubted:
            self._doubted.append(request)

        async def answered(claimed: int) -> None:
            writing.clear()
            if self._follow(request, claimed):
                await asyncio.sleep(0)  # it is sent

        reach(Point.BEFORE_CLAIM)
        try:
            if self._logs.has_ended:
                await self._logs.settle()
            begun = time.monotonic()
            turn = await self._store.turn(verdicts, request, answered)
            took = time.monotonic() - begun
            self._shortest_turn = min(took, FORGETTING * self._shortest_turn)
        except BaseException as error:
            writing.clear()
            self._put_back(verdicts)
            if isinstance(error, Exception):
                self._apart = not isinstance(error, StoreUnavailable)
            raise
        reach(Point.AFTER_CLAIM)
        if request in self._doubted:  # and no new lease has come meanwhile
            self._doubted.remove(request)
        self._written(verdicts, [a for a in turn.finished if isinstance(a, Stale)])
        self._took(request, turn.claim)

    def _wants_after(self, request: ClaimRequest, claimed: int) -> ClaimRequest | None:
        """The next claim, if it can do without this answer: there is more to claim and to write."""
        if claimed < request.room + request.ahead or not self._hand.verdicts:
            return None
        if self._stopping or not self._ahead_pays or self._doubted != [request]:
            return None
        return None if self._has_to_tell() else self._wants_beside(claimed)

    def _has_to_tell(self) -> bool:
        """Whether the store must be told of something first that only a new step tells it."""
        now = time.monotonic()
        if self._hand.has_overdue(now):
            return True
        if now < self._looked_at_bodies + STARTED_LATE / 2:
            return False
        self._looked_at_bodies = now
        return bool(self._hand.to_mark(now))

    def _took(self, request: ClaimRequest, claim: Claim) -> None:
        if claim.refused is not None:
            log.debug("claim refused", why=claim.refused)
        if claim.tasks:
            self._on_claim(request.lease, claim.tasks, claim.ahead)
        if request.ahead and (claim.tasks or request.room):
            # Where the queue was empty, nobody knows.
            self._ahead_pays = bool(claim.ahead) or len(claim.tasks) < request.room
        wanted = request.room + request.ahead
        self._hungry = claim.more or (bool(claim.tasks) and len(claim.tasks) >= wanted)

    async def _finish(self) -> None:
        verdicts = self._take_verdicts()
        reach(Point.BEFORE_FINISH)
        try:
            if self._logs.has_ended:
                await self._logs.settle()
            answers = await self._store.finish(verdicts)
        except BaseException:
            self._put_back(verdicts)
            raise
        finally:
            self._hand.writing.clear()
        reach(Point.AFTER_FINISH)
        self._written(verdicts, [a for a in answers if isinstance(a, Stale)])

    def _take_verdicts(self) -> list[Verdict]:
        verdicts, self._hand.verdicts = self._hand.verdicts, []
        self._hand.writing = [w for w in self._hand.writing if w]
        self._hand.writing.append({verdict.no: verdict.attempt for verdict in verdicts})
        return verdicts

    def _put_back(self, verdicts: list[Verdict]) -> None:
        """For the next step, which may be that of a loop that was begun beside this one."""
        self._hand.verdicts[:0] = verdicts
        self._bell.ring()

    def _written(self, verdicts: list[Verdict], stale: list[Stale]) -> None:
        if not self._logs.is_empty:
            self._logs.forget_ended(verdicts)
        if not stale:
            self._on_end(verdicts)
            return
        refused = {(answer.no, answer.attempt) for answer in stale}
        for no, attempt in refused:
            log.warning("stale attempt: its outcome was refused", no=no, attempt=attempt)
        self._on_end([v for v in verdicts if (v.no, v.attempt) not in refused])
