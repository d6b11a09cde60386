"""Everything that can happen next in a world: the protocol, its faults, its operators."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.world import (
    CANCELLED,
    COMPLETED,
    FAILED,
    NOBODY,
    PENDING,
    QUEUED,
    RUNNING,
    TERMINAL,
    WAITING,
    Config,
    Hold,
    Mode,
    Rules,
    Step,
    Task,
    Worker,
    World,
)

# Verbs that the invariants know by name.
REVIVE = "revives"
REGISTER = "registers"
RELEASE = "releases"
RETIRE = "retires"


class Protocol:
    def __init__(self, config: Config, rules: Rules) -> None:
        self.config = config
        self.rules = rules

    def steps(self, world: World) -> Iterator[Step]:
        for at, worker in enumerate(world.workers):
            yield from self._claims(world, at, worker)
            yield from self._finishes(world, at, worker)
            yield from self._lease(world, at, worker)
            yield from self._drains(world, at, worker)
            yield from self._faults(world, at, worker)
        for at, task in enumerate(world.tasks):
            if task.state == PENDING:
                yield Step("promotes", world.with_task(at, task._replace(state=QUEUED)), task=at)
            yield from self._operates(world, at, task)

    # --- claim ---

    def _claims(self, world: World, at: int, worker: Worker) -> Iterator[Step]:
        full = world.held >= self.config.key_limit or world.running >= self.config.capacity
        if full or worker.mode != "up" or worker.lease != "live":
            return
        for no, task in enumerate(world.tasks):
            if task.state != QUEUED or task.attempt >= self.config.attempts:
                continue
            attempt = task.attempt + self.rules.claim_raises_attempt
            taken = world.with_task(no, task._replace(state=RUNNING, attempt=attempt, owner=at))
            taken = taken._replace(held=world.held + 1)
            hold = Hold(no, attempt)
            known = taken.with_worker(at, worker._replace(bodies=worker.bodies | {hold}))
            yield Step("claims", known, at, no)
            yield Step("claims, answer lost,", taken, at, no, helps=False)

    # --- finish: by a worker, in the name of one attempt ---

    def _finishes(self, world: World, at: int, worker: Worker) -> Iterator[Step]:
        """A silent worker does not hear the answer, and may say it again."""
        for hold in sorted(worker.bodies):
            told = world
            if worker.on_time:
                told = world.with_worker(at, worker._replace(bodies=worker.bodies - {hold}))
            for verb, state, charge in self._outcomes(world.tasks[hold.task], worker):
                after = self._finish(told, hold, state, charge)
                yield Step(verb, after, at, hold.task, hold, worker.on_time)

    def _outcomes(self, task: Task, worker: Worker) -> Iterator[tuple[str, str, int]]:
        yield "completes", COMPLETED, 1
        yield "fails", self._after_loss(task, PENDING), 1
        yield "stops", CANCELLED, 0
        if worker.mode != "up":
            yield RELEASE, QUEUED, self.rules.release_charge

    def _finish(self, world: World, hold: Hold, state: str, charge: int) -> World:
        """The fenced write: a stale attempt changes nothing."""
        if self.rules.fence(world.tasks[hold.task], hold.attempt):
            return self._end(world, hold, state, charge)
        if self.rules.stale_finish_frees_key:
            return world._replace(held=max(0, world.held - 1))
        return world

    def _end(self, world: World, hold: Hold, state: str, charge: int) -> World:
        """End an attempt and give its room back."""
        task = world.tasks[hold.task]
        if task.asked and self.rules.asks_survive and state in WAITING:
            state = CANCELLED
        ended = task.ended | {hold.attempt}
        after = Task(state, task.attempt, task.charged + charge, ended=ended)
        return world.with_task(hold.task, after)._replace(held=max(0, world.held - 1))

    def _after_loss(self, task: Task, again: str) -> str:
        return again if task.charged + 1 < self.config.max_charged else FAILED

    # --- the lease ---

    def _lease(self, world: World, at: int, worker: Worker) -> Iterator[Step]:
        if worker.mode == "dead" and worker.lease == "gone":
            yield Step(REGISTER, world.with_worker(at, Worker()), at)
        if worker.mode != "dead":
            # Others go on without a silent worker, unless all are silent.
            helps = worker.on_time or all(other.mode == "silent" for other in world.workers)
            yield Step("beats", self._beat(world, at, worker), at, helps=helps)
        if worker.lease == "live":
            # A worker that cannot renew stops its bodies first; a frozen one cannot.
            bodies = frozenset[Hold]() if worker.on_time else worker.bodies
            ended = world.with_worker(at, Worker("silent", "ended", bodies))
            yield Step("lets its lease end", ended, at, helps=not worker.on_time)
        if self.rules.may_rescue(worker):
            yield Step("is rescued", self._rescue(world, at), at)

    def _beat(self, world: World, at: int, worker: Worker) -> World:
        """Renew, and believe the store on what is ours; a lost lease ends this incarnation."""
        if worker.lease not in self.rules.beat_revives:
            return world.with_worker(at, Worker("dead", worker.lease))
        mode: Mode = "draining" if worker.mode == "draining" else "up"
        bodies = frozenset(world.runs_of(at)) if self.rules.beat_reconciles else worker.bodies
        return world.with_worker(at, Worker(mode, "live", bodies))

    def _rescue(self, world: World, at: int) -> World:
        for hold in world.runs_of(at):
            state = self._after_loss(world.tasks[hold.task], QUEUED)
            world = self._end(world, hold, state, charge=1)
        return world.with_worker(at, world.workers[at]._replace(lease="gone"))

    # --- drain ---

    def _drains(self, world: World, at: int, worker: Worker) -> Iterator[Step]:
        if worker.mode == "up":
            draining = world.with_worker(at, worker._replace(mode="draining"))
            yield Step("drains", draining, at, helps=False)
        if worker.mode == "draining":
            after = world
            for hold in world.runs_of(at):
                after = self._end(after, hold, QUEUED, self.rules.release_charge)
            yield Step(RETIRE, after.with_worker(at, Worker("dead", "gone")), at)

    # --- faults and operators ---

    def _faults(self, world: World, at: int, worker: Worker) -> Iterator[Step]:
        if worker.on_time:
            silent = world.with_worker(at, worker._replace(mode="silent"))
            yield Step("falls silent", silent, at, helps=False)
        if worker.mode != "dead":
            killed = Worker("dead", "gone" if worker.lease == "gone" else "ended")
            yield Step("is killed", world.with_worker(at, killed), at, helps=False)

    def _operates(self, world: World, at: int, task: Task) -> Iterator[Step]:
        def step(verb: str, changed: Task) -> Step:
            return Step(verb, world.with_task(at, changed), task=at, helps=False)

        if task.state in WAITING:
            yield step("cancels", task._replace(state=CANCELLED))
        elif task.state == RUNNING and not self.rules.cancel_asks_running:
            yield step("cancels", task._replace(state=CANCELLED, owner=NOBODY))
        elif task.state == RUNNING and not task.asked:
            yield step("asks to cancel", task._replace(asked=True))
        elif task.state in TERMINAL - {COMPLETED} and task.attempt < self.config.attempts:
            attempt = task.attempt if self.rules.revival_keeps_attempt else 0
            yield step(REVIVE, task._replace(state=QUEUED, charged=0, attempt=attempt))
