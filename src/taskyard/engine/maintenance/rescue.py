"""Takes the tasks of dead nodes back into their queues."""

from __future__ import annotations

import logging
import time

from taskyard.domain.node import Node
from taskyard.domain.state import TERMINAL
from taskyard.engine.identity import provably_dead
from taskyard.engine.log import logger
from taskyard.engine.maintenance.duty import Duty, Steward
from taskyard.engine.notifier import Notifier
from taskyard.store.port import Rescued, Store

LOOK_SECONDS = 5.0  # a node that has come meanwhile may have a short lease, or have died again

log = logger("rescue")


class Rescuer(Duty):
    """Asks the store seldom: in between it knows when a lease can end, and who has died here."""

    name = "rescue"
    idle_seconds = 1.0

    def __init__(self, store: Store, notifier: Notifier, steward: Steward) -> None:
        super().__init__(store, notifier, steward)
        self._seen: list[Node] = []
        self._look_at = 0.0

    async def perform(self) -> float | None:
        if time.monotonic() >= self._look_at or proven_dead(self._seen):
            await self._look()
        return None

    async def _look(self) -> None:
        self._look_at = 0.0  # at once again, if this fails or finds somebody
        nodes = await self.store.nodes()
        ended = any(node.lease_left <= 0 for node in nodes)
        dead = proven_dead(nodes)
        # A store that was frozen lets every lease end at once. Whoever is alive renews its own
        # within a lease of our unbroken contact; only what is still ended then is really dead.
        trusted = self.steward.steady_for >= self.steward.lease_seconds
        if ended or dead:
            rescued = await self.store.rescue(dead, ended=trusted)
            report(rescued)
            if rescued:
                self._notifier.ring()
        else:
            soonest = min((node.lease_left for node in nodes), default=LOOK_SECONDS)
            self._look_at = time.monotonic() + min(soonest, LOOK_SECONDS)
        self._seen = nodes


async def rescue_predecessors(store: Store) -> None:
    """At start, not a duty: a worker restarted here frees its dead predecessor at once."""
    nodes = await store.nodes()
    dead = proven_dead(nodes)
    if dead or any(node.lease_left <= 0 for node in nodes):
        report(await store.rescue(dead, ended=False))


def proven_dead(nodes: list[Node]) -> list[int]:
    return [node.lease for node in nodes if node.process and provably_dead(node.process)]


def report(rescued: list[Rescued]) -> None:
    for one in rescued:
        log.warning("rescue", node=one.node, lease=one.lease, tasks=len(one.verdicts))
        for verdict in one.verdicts:
            ended = verdict.state in TERMINAL
            log.log(
                logging.ERROR if ended else logging.WARNING,
                "lost with its node",
                task=verdict.id,
                attempt=verdict.attempt,
                state=verdict.state.value,
                reason=verdict.reason.value,
                charged=bool(verdict.charge),
            )
