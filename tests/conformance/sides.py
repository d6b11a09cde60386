"""One store beside its own model: every verb goes to both, and what they say must be the same.

Tasks have the same ids in every store, but numbers, places and leases are the store's own: answers
are compared by id, by order, and by the label a node's incarnation has in the model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from taskyard.domain.clock import Instant, seconds
from taskyard.domain.errors import TaskyardError
from taskyard.domain.explain import Condition, Explanation
from taskyard.domain.lane import LaneChange, Order
from taskyard.domain.node import Ask, Lease, NewNode, News
from taskyard.domain.outcome import Finished, Outcome, Stale, Verdict
from taskyard.domain.rate import Rate
from taskyard.domain.retention import Retention
from taskyard.domain.state import TERMINAL, Reason, State
from taskyard.domain.task import Claimed, Enqueue, NewTask, Progress, Refused, Task, TaskQuery
from taskyard.domain.trace import Origin
from taskyard.store.port import Claim, ClaimRequest, Store
from tests.conformance.listing import line_of, paged, questions, wanted
from tests.conformance.model import Model
from tests.conformance.things import ModelTask, Noted
from tests.conformance.verbs import parked, verdict

T = TypeVar("T")

ACTOR = "ann"
EVERYTHING = 1000
MOST_ASKS = 50
FORGED = -1  # in the place of how many attempts ago: the last one, under a lease that is not its
EXPLAINED = 2  # waiting tasks that are asked about after each step


class Side:
    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store
        self.model = Model()
        self._leases: dict[str, Lease] = {}
        self._numbers: dict[str, int] = {}
        self._attempts: dict[str, list[Claimed]] = {}
        self._nos: dict[str, int] = {}
        self._noted = 0
        self._steps = 0

    async def read_clock(self) -> None:
        self.model.now = await self.store.now()

    async def _alike(self, asked: Awaitable[T], expected: Callable[[], T]) -> None:
        """The same answer, or the same kind of error."""
        got: T | type[TaskyardError]
        wanted: T | type[TaskyardError]
        try:
            got = await asked
        except TaskyardError as error:
            got = type(error)
        try:
            wanted = expected()
        except TaskyardError as error:
            wanted = type(error)
        assert got == wanted

    # --- tasks ---

    async def enqueue(self, tasks: Sequence[NewTask], *, by: tuple[str, int] | None) -> None:
        """`by` is a task and how many attempts of it came after the one that asks."""
        held = None if by is None else self._attempt(*by)
        hold = None if held is None else held.hold
        fence = None if held is None else (held.id, self._believed(held))
        await self._alike(
            _plain(self.store.enqueue(tasks, by=hold)),
            lambda: list(map(_without_count, self.model.enqueue(tasks, by=fence))),
        )

    def _attempt(self, task_id: str, back: int) -> Claimed | None:
        """The last attempt of a task, or one from before; None if there was none."""
        attempts = self._attempts.get(task_id, [])
        if back == FORGED and attempts:
            return msgspec.structs.replace(attempts[-1], lease=attempts[-1].lease + 1)
        return attempts[-1 - back] if 0 <= back < len(attempts) else None

    def _believed(self, said: Claimed | Verdict) -> int:
        """The number of an attempt, or 0 if another lease than this has claimed it."""
        mine = [task for task in self._attempts[said.id] if task.attempt == said.attempt]
        return said.attempt if [task.lease for task in mine] == [said.lease] else 0

    def verdicts(self, endings: Sequence[tuple[str, int, Outcome]]) -> list[Verdict]:
        """Of (task, attempts that came after it, outcome), as far as there were such attempts."""
        found = [(self._attempt(task_id, back), outcome) for task_id, back, outcome in endings]
        return [verdict(task, outcome) for task, outcome in found if task is not None]

    async def finish(self, endings: Sequence[tuple[str, int, Outcome]]) -> None:
        verdicts = self.verdicts(endings)
        self._check_finished(verdicts, await self.store.finish(verdicts))

    def _check_finished(self, verdicts: Sequence[Verdict], got: list[Finished | Stale]) -> None:
        wanted: list[Finished | Stale] = []
        for said in verdicts:
            believed = msgspec.structs.replace(said, attempt=self._believed(said))
            state = self.model.finish(believed)
            stale = Stale(said.no, said.attempt)
            wanted.append(stale if state is None else Finished(said.no, state))
        assert got == wanted

    async def mark_started(self, wanted: Sequence[tuple[str, int]]) -> None:
        found = [self._attempt(*one) for one in wanted]
        tasks = [task for task in found if task is not None]
        await self.store.mark_started([task.hold for task in tasks])
        for task in tasks:
            self.model.mark_started(task.id, self._believed(task))

    async def report(self, task_id: str, back: int, progress: Progress) -> None:
        task = self._attempt(task_id, back)
        if task is not None:
            got = await self.store.report(task.hold, progress)
            assert got == self.model.report(task.id, self._believed(task), progress)

    async def checkpoint(self, task_id: str, back: int, data: str) -> None:
        task = self._attempt(task_id, back)
        if task is not None:
            got = await self.store.checkpoint(task.hold, data)
            assert got == self.model.checkpoint(task.id, self._believed(task), data)

    async def promote(self) -> None:
        """Rates are looked at as often as a store likes, but not too late."""
        got, count = await self.store.promote(), self.model.promote()
        due, rated = self.model.next_due(), self.model.rated()
        assert count <= got.count <= count + rated
        openings = self.model.openings(await parked(self.store)) if rated else []
        moments = [at for at in (due, *openings) if at is not None]
        if not rated:
            assert got.next_due == due
        elif moments:
            assert got.next_due is not None
            assert got.next_due <= min(moments)
        if got.next_due is not None and got.next_due != due:
            assert self.model.now < got.next_due <= self.model.latest_token()

    async def expire(self) -> None:
        assert await self.store.expire() == self.model.expire_all()

    async def prune(self, retention: Retention, limit: int) -> None:
        counted, _ = await self._prune(retention, limit, dry_run=True)
        removed, lines = await self._prune(retention, limit, dry_run=False)
        gone = self.model.prune(retention)
        assert (counted, removed, lines) == (len(gone), len(gone), 0)
        for task_id in gone:
            assert await self.store.get(task_id) is None
            # One that comes under this id is another.
            self._attempts.pop(task_id, None)
            self._nos.pop(task_id, None)

    async def _prune(self, retention: Retention, limit: int, *, dry_run: bool) -> tuple[int, int]:
        """A run to its end: how many tasks and lines of the audit trail it removed."""
        step = await self.store.prune(retention, actor=ACTOR, limit=limit, dry_run=dry_run)
        tasks, lines = step.tasks, step.audit
        while step.mark is not None:
            step = await self.store.prune(
                retention, actor=ACTOR, after=step.mark, limit=limit, dry_run=dry_run
            )
            tasks, lines = tasks + step.tasks, lines + step.audit
        return tasks, lines

    async def cancel(self, task_id: str) -> None:
        await self._alike(
            self.store.cancel(task_id, actor=ACTOR), lambda: self.model.cancel(task_id)
        )

    async def pause(self, task_id: str) -> None:
        await self._alike(self.store.pause(task_id, actor=ACTOR), lambda: self.model.pause(task_id))

    async def resume(self, task_id: str) -> None:
        await self._alike(
            self.store.resume(task_id, actor=ACTOR), lambda: self.model.resume(task_id)
        )

    async def retry(self, task_id: str) -> None:
        await self._alike(self.store.retry(task_id, actor=ACTOR), lambda: self.model.retry(task_id))

    async def prioritize(self, task_id: str, priority: int) -> None:
        await self._alike(
            self.store.prioritize(task_id, priority, actor=ACTOR),
            lambda: self.model.prioritize(task_id, priority),
        )

    # --- lanes, keys, the yard ---

    async def set_lane(self, name: str, change: LaneChange) -> None:
        got = await self.store.set_lane(name, change, actor=ACTOR)
        assert got == self.model.set_lane(name, change)

    async def set_key_rule(self, pattern: str, limit: int | None, rate: Rate | None = None) -> None:
        await self.store.set_key_rule(pattern, limit, rate=rate, actor=ACTOR)
        self.model.set_rule(pattern, limit, rate)

    async def pause_yard(self, paused: bool, until: Instant | None = None) -> None:
        await self.store.pause_yard(paused, until=until, actor=ACTOR)
        self.model.pause_yard(paused, until=until)

    # --- nodes ---

    async def register(self, label: str, node: NewNode) -> None:
        lease = await self.store.register(node)
        assert lease > max(self._leases.values(), default=0)
        self._leases[label], self._numbers[label] = lease, 0
        self.model.register(label, node)

    async def beat(self, label: str) -> None:
        news = self.store.beat(self._leases[label], timeout=10)
        if label in self.model.nodes:
            self.model.beat(label)
        self._check_news(label, news)
        await self._check_holds(label)

    async def news(self, label: str) -> None:
        self._check_news(label, await self.store.news(self._leases[label]))

    def _check_news(self, label: str, news: News) -> None:
        assert news.lost == (label not in self.model.nodes)
        runs = [(self._last(task), task.asked) for task in self.model.running_on(label)]
        assert set(news.asks) == {Ask(held.no, held.attempt, what) for held, what in runs if what}

    async def _check_holds(self, label: str) -> None:
        holds = await self.store.holds(self._leases[label])
        assert set(holds) == {self._last(task).hold for task in self.model.running_on(label)}
        assert len(holds) == len(set(holds))

    def _last(self, task: ModelTask) -> Claimed:
        return self._attempts[task.id][-1]

    async def drain(self, label: str) -> None:
        await self.store.drain(self._leases[label])
        self.model.drain(label)

    async def retire(self, label: str) -> None:
        await self.store.retire(self._leases[label])
        self.model.retire(label)

    async def rescue(self, dead: Sequence[str], *, ended: bool) -> None:
        rescued = await self.store.rescue([self._leases[label] for label in dead], ended=ended)
        labels = {lease: label for label, lease in self._leases.items()}
        names = {label: node.about.id for label, node in self.model.nodes.items()}
        wanted = self.model.rescue(dead, ended=ended)
        assert {labels[one.lease]: one.node for one in rescued} == {
            label: names[label] for label in wanted
        }
        assert {labels[one.lease]: self._by_id(one.verdicts) for one in rescued} == {
            label: self._by_id(verdicts) for label, verdicts in wanted.items()
        }

    @staticmethod
    def _by_id(verdicts: Sequence[Verdict]) -> dict[str, Verdict]:
        return {v.id: msgspec.structs.replace(v, no=0, lease=0) for v in verdicts}

    async def take_duty(self, name: str, label: str, span: float) -> None:
        got = await self.store.take_duty(name, self._leases[label], span)
        assert got == self.model.take_duty(name, label, span)

    # --- claims ---

    async def claim(
        self,
        label: str,
        room: int,
        *,
        ahead: int = 0,
        endings: Sequence[tuple[str, int, Outcome]] | None = None,
    ) -> None:
        """Claim until the store says that there is no more; with endings, the first is a turn."""
        got = 0
        wanted: list[str] | None = None
        order: list[str] = []
        for asks in range(MOST_ASKS):
            self._numbers[label] += 1
            request = ClaimRequest(
                lease=self._leases[label],
                number=self._numbers[label],
                room=room - got,
                ahead=ahead,
            )
            if endings is None or asks > 0:
                claim = await self.store.claim(request)
            else:
                verdicts = self.verdicts(endings)
                turn = await self.store.turn(verdicts, request)
                self._check_finished(verdicts, turn.finished)
                claim = turn.claim
            if self.model.refusal(label) is not None:
                assert claim == Claim([], refused=self.model.refusal(label))
                return
            assert claim.refused is None
            if asks == 0:
                wanted = self.model.first_eligible(label, room)
            await self._check_claim(label, request, claim)
            now = [task.id for task in claim.tasks if task.no not in claim.ahead]
            order += now
            got += len(now)
            ahead -= len(claim.ahead)
            if not claim.more:
                break
        else:
            raise AssertionError("a claim that never comes to an end")
        assert wanted is None or order == wanted
        if got < room and self.model.free_slots(label) > 0:
            tasks = self.model.tasks.values()
            left = [task for task in tasks if self.model.may_run(task, label, sure=True)]
            assert left == [], "free room and an eligible waiting task"

    async def _check_claim(self, label: str, request: ClaimRequest, claim: Claim) -> None:
        turns = self.model.fair_turns(label)
        given = [task.id for task in claim.tasks]
        assert turns is None or claim.more or any(turn[: len(given)] == given for turn in turns)
        await self._notice_expired()
        for task in claim.tasks:
            self._check_claimed(task, label, fresh=True)
            self._attempts.setdefault(task.id, []).append(task)
        assert len(claim.ahead) <= request.ahead
        self.model.claim(
            label,
            [(task.id, task.attempt) for task in claim.tasks],
            number=request.number,
            room=max(0, min(request.room, self.model.free_slots(label))),
            ahead={task.id for task in claim.tasks if task.no in claim.ahead},
        )

    async def claim_again(self, label: str, back: int) -> None:
        """Repeat one of the last requests, as after a lost answer."""
        number = self._numbers[label] - back
        node = self.model.nodes.get(label)
        if node is None or number < 1 or number > node.last_request:
            return
        request = ClaimRequest(lease=self._leases[label], number=number, room=1)
        claim = await self.store.claim(request)
        held = [task for task in self.model.running_on(label) if task.request == number]
        assert {task.id for task in claim.tasks} == {task.id for task in held}
        for task in claim.tasks:
            self._check_claimed(task, label)
        waiting = frozenset(self._last(task).no for task in held if task.started_at is None)
        assert msgspec.structs.replace(claim, tasks=[]) == Claim([], waiting)

    def _check_claimed(self, claimed: Claimed, label: str, *, fresh: bool = False) -> None:
        task = self.model.tasks[claimed.id]
        waited = seconds(max(0, self.model.now - task.run_at))
        checkpoint = task.checkpoint
        if not fresh:  # found again: as it was, or as it is
            waited, checkpoint = claimed.waited, claimed.checkpoint
        assert msgspec.structs.asdict(claimed) == {
            "no": self._nos.setdefault(task.id, claimed.no),
            "id": task.id,
            "kind": task.kind,
            "lane": task.lane,
            "attempt": task.attempt + fresh,
            "charged": task.charged,
            "max_charged": task.new.max_charged,
            "timeout": task.new.timeout,
            "payload": task.payload,
            "lease": self._leases[label],
            "losses": task.losses,
            "waited": waited,
            "checkpoint": checkpoint,
            "origin": task.trace and Origin(task.trace, task.run_at <= task.created_at),
        }

    async def _notice_expired(self) -> None:
        """A claim may fail late tasks on its way, or leave that to expire."""
        for task in list(self.model.tasks.values()):
            if self.model.late(task):
                kept = await self.store.get(task.id)
                assert kept is not None
                if kept.reason is Reason.EXPIRED:
                    self.model.expire(task.id)

    async def settle(self) -> None:
        """Let every node take all it can: then nothing that could run is left waiting."""
        await self.promote()
        runs = -1
        while runs < len(self.model.running()):  # one node may start what others wait behind
            runs = len(self.model.running())
            for label in [one for one in self.model.nodes if self.model.refusal(one) is None]:
                await self.claim(label, self.model.nodes[label].about.slots)
        assert list(self.model.could_run()) == []

    # --- what can be seen ---

    async def check(self) -> None:
        self._steps += 1
        await self._check_tasks()
        await self._check_room()
        await self._check_nodes()
        await self._check_audit()
        waiting = self.model.in_state(State.PENDING, State.QUEUED)
        for at in range(min(EXPLAINED, len(waiting))):
            await self._check_explanation(waiting[(self._steps + at) % len(waiting)])

    async def _check_tasks(self) -> None:
        tasks = await self.store.find(TaskQuery(limit=EVERYTHING))
        made = list(self.model.tasks.values())
        assert [task.id for task in tasks] == [task.id for task in reversed(made)]
        assert [task.no for task in tasks] == sorted((task.no for task in tasks), reverse=True)
        for task in tasks:
            self.check_task(task)
        places = {task.id: task.seq for task in tasks}
        by_place = sorted(made, key=lambda task: task.seq)
        assert [t.id for t in by_place] == sorted(places, key=lambda task_id: places[task_id])
        await self._check_list(tasks)
        counts = Counter(task.state for task in made)
        assert await self.store.counts() == {state: counts[state] for state in State}
        endings = await self.store.endings(list(self.model.tasks))
        wanted = {ending.id: ending for ending in self.model.endings()}
        assert {ending.id: ending for ending in endings} == wanted

    async def _check_list(self, tasks: list[Task]) -> None:
        """One question of all that could be asked, another one with each step."""
        asked = list(questions(tasks))
        query = asked[self._steps * 7 % len(asked)]
        expected = wanted(tasks, query)
        assert await self.store.find(query) == expected
        assert await paged(self.store, query, 3) == [line_of(task) for task in expected]

    def check_task(self, task: Task) -> None:
        mine = self.model.tasks[task.id]
        assert task.parked_on in (None, *mine.keys)
        assert task.parked_on is None or task.state is State.QUEUED
        in_line = self.model.lane(mine.lane).order is Order.FIFO
        assert task.parked_on is None or not in_line
        known = msgspec.structs.replace(task, no=mine.no, seq=mine.seq, parked_on=None)
        if task.state in TERMINAL:
            known = msgspec.structs.replace(known, waits_for=len(mine.unmet))
        if not mine.depends_on:  # then it means nothing
            known = msgspec.structs.replace(known, on_failure=mine.new.on_failure)
        assert known == mine.seen()

    async def check_each_task(self) -> None:
        """By its id, as callers ask."""
        for task_id in self.model.tasks:
            task = await self.store.get(task_id)
            assert task is not None
            self.check_task(task)
        assert await self.store.get("nobody") is None

    async def _check_room(self) -> None:
        assert await self.store.lanes() == [
            self.model.seen_lane(name) for name in sorted(self.model.lanes)
        ]
        keys = await self.store.keys()
        holders = {key.name: set(key.holders) for key in keys if key.holders}
        assert holders == self.model.holders()
        for key in keys:
            queued = [t for t in self.model.in_state(State.QUEUED) if key.name in t.keys]
            assert key.limit == self.model.limit(key.name)
            assert key.holders or key.waiting
            assert key.waiting <= len(queued)
        rules = {rule.pattern: rule for rule in await self.store.key_rules()}
        assert rules == self.model.rules

    async def _check_nodes(self) -> None:
        nodes = sorted(await self.store.nodes(), key=lambda node: node.lease)
        wanted = [self.model.seen_node(label, self._leases[label]) for label in self.model.nodes]
        assert nodes == wanted

    async def _check_audit(self) -> None:
        """What was written down in this step; the order within a step is nobody's promise."""
        new = len(self.model.audit) - self._noted
        lines = await self.store.audit(limit=new + 1)
        assert [line.no for line in lines] == sorted((line.no for line in lines), reverse=True)
        leases = {f"lease {lease}": f"lease {label}" for label, lease in self._leases.items()}
        got = [
            Noted(one.at, one.actor, one.action, one.subject, leases.get(one.detail, one.detail))
            for one in lines
        ]
        assert sorted(got[:new]) == sorted(self.model.audit[self._noted :])
        assert len(got) == min(new + 1, len(self.model.audit))
        self._noted = len(self.model.audit)

    async def _check_explanation(self, task: ModelTask) -> None:
        got, wanted = await self.store.explain(task.id), self.model.explain(task.id)
        if self.model.has_lapsed_pause():
            return
        if task.unmet:
            self._check_unmet(task, got)
            return
        if not _is_only_behind(wanted) or self.model.lane(task.lane).order is Order.FIFO:
            assert got == wanted
            return
        if not self.model.lane(task.lane).exact or self.model.lane(task.lane).order is Order.FAIR:
            assert all(wait.condition is Condition.ORDER for wait in got.waits)
            return
        # A store does not count those it has seen waiting for a full key.
        [wait] = got.waits or wanted.waits
        assert wait.condition is Condition.ORDER
        before = wait.figures["before"] if got.waits else 0
        others = self.model.before(task)
        assert isinstance(before, int)
        assert sum(not other.keys for other in others) <= before <= len(others)

    @staticmethod
    def _check_unmet(task: ModelTask, got: Explanation) -> None:
        [wait] = got.waits
        named = wait.figures["tasks"]
        assert (wait.code, wait.figures["count"]) == ("dependencies", len(task.unmet))
        assert isinstance(named, list)
        assert named
        assert set(named) <= set(task.depends_on)


async def _plain(asked: Awaitable[list[Enqueue]]) -> list[Enqueue]:
    return list(map(_without_count, await asked))


def _without_count(answer: Enqueue) -> Enqueue:
    """Of a lane with more in it than its max depth, a store need not count how many."""
    if isinstance(answer, Refused):
        return Refused(re.sub(r"full: \d+ tasks", "full: some tasks", answer.reason))
    return answer


def _is_only_behind(explanation: Explanation) -> bool:
    return [wait.condition for wait in explanation.waits] == [Condition.ORDER]
