"""What becomes of new tasks whose fate hangs on others: on their dedup key, on those they depend
on, on how many wait in their lane, on who holds their keys.

All that is asked of the store is asked at once; the decisions are made in the order of the tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskyard.domain.clock import Instant
from taskyard.domain.errors import InvalidOption
from taskyard.domain.state import TERMINAL, WAITING, State
from taskyard.domain.task import (
    Clash,
    Dedup,
    Duplicate,
    Enqueue,
    Enqueued,
    NewTask,
    OnFailure,
    Refused,
)
from taskyard.store.sqlite import dependencies, keys
from taskyard.store.sqlite.names import lane_number
from taskyard.store.sqlite.newcomer import Newcomers, Particular, run_at_of, save_traces
from taskyard.store.sqlite.order import Places
from taskyard.store.sqlite.tx import Tx, numbers, to_json


class _Keeper(msgspec.Struct, array_like=True):
    """The task that keeps a dedup key."""

    key: str
    no: int
    id: str
    kind: str
    state: State
    waits_for: int
    run_at: Instant
    payload: str | None = None  # a new one
    trace: str | None = None  # that it came from


class Intake:
    def __init__(self, tx: Tx, tasks: Sequence[NewTask], places: Places) -> None:
        sql = tx.sql("intake")
        self._tx = tx
        self._places = places
        self._known = set(tx.rows(list[str], sql["known"], to_json([task.id for task in tasks])))
        dedup = to_json([task.dedup.key for task in tasks if task.dedup])
        self._keepers = {
            keeper.key: keeper for keeper in tx.rows(list[_Keeper], sql["keepers"], dedup)
        }
        needed = to_json(sorted({one for task in tasks for one in task.depends_on}))
        self._states = tx.rows(dict[str, State], sql["states"], needed)
        self._states |= {keeper.id: keeper.state for keeper in self._keepers.values()}
        full = keys.full(tx, (key for task in tasks for key in task.keys))
        self._newcomers = Newcomers(tx, places, full)
        self._held = keys.held_up(
            tx, (k for task in tasks if task.refuse_if_held for k in task.keys)
        )
        self._depths: dict[int, int] = {}
        self._answers: dict[str, Enqueue] = {}
        self._edges: list[dependencies.Edge] = []
        self.saved: list[Particular] = []

    def decide(self, no: int, task: NewTask) -> Enqueue:
        answer = self._duplicate(task) or self._save(no, task)
        self._answers[task.id] = answer
        return answer

    def settle(self) -> None:
        """Write down what is left when the new ones are saved."""
        sql = self._tx.sql("intake")
        changed = [k for k in self._keepers.values() if k.payload is not None]
        if changed:
            self._tx.run(sql["replace_payloads"], to_json([(k.no, k.payload) for k in changed]))
            self._tx.run(sql["forget_traces"], numbers(k.no for k in changed))
            save_traces(self._tx, {k.no: k.trace for k in changed if k.trace is not None})
            self._tx.run(sql["put_off"], to_json([(k.no, k.run_at) for k in changed]))
        dependencies.save(self._tx, self._edges)

    # --- its id and its dedup key ---

    def _duplicate(self, task: NewTask) -> Duplicate | None:
        if task.id in self._known:
            return Duplicate(task.id)
        keeper = self._keepers.get(task.dedup.key) if task.dedup else None
        if task.dedup is None or keeper is None:
            return None
        return Duplicate(keeper.id, changed=self._change(keeper, task, task.dedup))

    def _change(self, keeper: _Keeper, task: NewTask, dedup: Dedup) -> bool:
        """Let the one that keeps the key take over what this one would do differently."""
        if dedup.clash is Clash.KEEP or keeper.state not in WAITING or keeper.kind != task.kind:
            return False
        keeper.payload, keeper.trace = task.payload, task.trace
        waits_for_its_time = keeper.state is State.PENDING and keeper.waits_for == 0
        if dedup.clash is Clash.DEBOUNCE and waits_for_its_time:
            keeper.run_at = max(keeper.run_at, run_at_of(self._tx, task))
        return True

    # --- what it needs ---

    def _save(self, no: int, task: NewTask) -> Enqueued | Refused:
        needed = self._needed(task)
        if needed is None:
            return Refused("it depends on a task that was refused")
        unmet = [one for one, state in needed.items() if state not in TERMINAL]
        run_at = run_at_of(self._tx, task)
        state = self._state(task, needed, unmet, run_at)
        refused = None if state in TERMINAL else self._refusal(task)
        if refused is not None:
            return refused
        waits_for = 0 if state in TERMINAL else len(unmet)
        row = self._newcomers.particular(no, task, state, run_at, waits_for=waits_for)
        self._enter(task, row)
        self._edges += [
            (no, place, one, int(one in unmet and state not in TERMINAL))
            for place, one in enumerate(needed)
        ]
        return Enqueued(task.id)

    def _needed(self, task: NewTask) -> dict[str, State] | None:
        """The states of the tasks it depends on; None: one of them was refused."""
        needed: dict[str, State] = {}
        refused = False
        for named in task.depends_on:
            answer = self._answers.get(named)
            refused = refused or isinstance(answer, Refused)
            one = named if answer is None or isinstance(answer, Refused) else answer.id
            if one in self._states:
                needed[one] = self._states[one]
            elif not isinstance(answer, Refused):
                raise InvalidOption(
                    f"depends_on names task {named}, which does not exist; it may have been pruned"
                )
        return None if refused else needed

    def _state(
        self, task: NewTask, needed: dict[str, State], unmet: list[str], run_at: Instant
    ) -> State:
        if task.on_failure is OnFailure.CANCEL and any(map(dependencies.is_bad, needed.values())):
            return State.CANCELLED
        return State.PENDING if unmet or run_at > self._tx.now else State.QUEUED

    def _refusal(self, task: NewTask) -> Refused | None:
        number = lane_number(self._tx, task.lane)
        lane = self._places.lanes.get(number)
        if lane is not None and lane.max_depth is not None:
            if number not in self._depths:
                depth = self._tx.sql("intake")["depth"]
                self._depths[number] = self._tx.value(depth, number, lane.max_depth)
            if self._depths[number] >= lane.max_depth:
                return Refused(
                    f"lane {lane.name} is full: {self._depths[number]} tasks wait, and its max "
                    f"depth is {lane.max_depth}"
                )
        held = (
            next((k for k in task.keys if k in self._held), None) if task.refuse_if_held else None
        )
        return None if held is None else Refused(f"key {held} is held")

    def _enter(self, task: NewTask, row: Particular) -> None:
        """Those that follow in this call see it as saved."""
        self.saved.append(row)
        self._known.add(task.id)
        self._states[task.id] = row.state
        if row.lane in self._depths and row.state not in TERMINAL:
            self._depths[row.lane] += 1
        if row.dedup is not None and row.dedup_held:
            self._keepers[row.dedup] = _Keeper(
                row.dedup, row.no, row.id, task.kind, row.state, row.waits_for, row.run_at
            )
