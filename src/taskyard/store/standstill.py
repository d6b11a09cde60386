"""Brings the source of a copy to a standstill: paused, without workers, nothing running.

A copy signs its pause in the audit trail, and writes there which pause it has found: so one that is
made again, after it was interrupted, takes its own pause for nobody's.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime

from taskyard.domain.clock import Instant, as_datetime, as_instant, seconds
from taskyard.domain.errors import CannotCopy
from taskyard.domain.lane import Audited
from taskyard.domain.node import Lease, Node
from taskyard.domain.state import State
from taskyard.store.port import Store, YardPause

LOOK_SECONDS = 1.0

ProvenDead = Callable[[list[Node]], Sequence[Lease]]
"""The leases of those nodes that can no longer be at work."""

_PAGE = 1000
_SIGNED = re.compile(r" \(copy [0-9a-f]{8}(?P<found>, was paused(?: until (?P<until>\S+))?)?\)$")


async def operators_pause(source: Store) -> YardPause | None:
    """The pause of a yard, if it is not that of a copy; else the one which that copy has found."""
    pause = await source.yard_paused()
    line = None if pause is None else await _last_line(source)
    signed = None if line is None else _SIGNED.search(line.actor)
    if signed is None:
        return pause
    if signed["found"] is None:
        return None
    until = signed["until"]
    return YardPause(None if until is None else as_instant(datetime.fromisoformat(until)))


async def pause(source: Store, target: Store, actor: str, found: YardPause | None) -> None:
    signed = f"{actor} (copy {secrets.token_hex(4)}{_told(found)})"
    await source.pause_yard(True, actor=signed)
    if any(line.actor == signed for line in await target.audit(limit=10)):
        raise CannotCopy("source and target are the same yard")


async def set_pause(store: Store, pause: YardPause | None, actor: str) -> None:
    """Pause a yard like this, or let it go on."""
    until = None if pause is None else pause.until
    await store.pause_yard(pause is not None, until=until, actor=actor)


def nobody(_: list[Node]) -> Sequence[Lease]:
    return ()


async def quiet(source: Store, *, wait: bool, proven_dead: ProvenDead) -> None:
    """See that no worker is there and nothing runs, and if told to, wait until it is so."""
    contact = _Contact()
    while True:
        nodes = await source.nodes()
        contact.looked(await source.now(), nodes)
        dead = proven_dead(nodes)
        if dead or any(node.lease_left <= 0 for node in nodes):
            rescued = await source.rescue(dead, ended=contact.is_long_enough(nodes))
            gone = {one.lease for one in rescued}
            nodes = [node for node in nodes if node.lease not in gone]
        if not nodes and not (await source.counts())[State.RUNNING]:
            return
        if not wait:
            raise CannotCopy(_why_not(nodes))
        await asyncio.sleep(min(LOOK_SECONDS, _shortest(nodes) / 6))


class _Contact:
    """How long the store has answered without a break, by its own clock.

    A store that was frozen lets every lease end at once. Whoever is alive renews its own within a
    lease of unbroken contact; only what is still ended then is really dead.
    """

    def __init__(self) -> None:
        self._since: Instant = 0
        self._last: Instant = 0

    def looked(self, now: Instant, nodes: Sequence[Node]) -> None:
        """Within half a lease no lease ends that is renewed every third of it."""
        if not 0 <= seconds(now - self._last) <= _shortest(nodes) / 2:
            self._since = now
        self._last = now

    def is_long_enough(self, nodes: Sequence[Node]) -> bool:
        longest = max((node.lease_seconds for node in nodes), default=0.0)
        return seconds(self._last - self._since) >= longest


def _shortest(nodes: Sequence[Node]) -> float:
    return min((node.lease_seconds for node in nodes), default=LOOK_SECONDS)


def _why_not(nodes: Sequence[Node]) -> str:
    at_work = [node.id for node in nodes if node.lease_left > 0]
    if at_work or not nodes:
        return (
            f"workers are running on the source: {', '.join(at_work)}; stop them, or wait for "
            "them with --wait"
        )
    longest = max(node.lease_seconds for node in nodes)
    return (
        f"the leases of workers of the source have ended: {', '.join(node.id for node in nodes)} "
        f"may be at work all the same; --wait finds out in {longest:g} s"
    )


async def _last_line(source: Store) -> Audited | None:
    """Who paused it, or let it go on, last."""
    before: int | None = None
    while page := await source.audit(limit=_PAGE, before=before):
        for line in page:
            if line.subject == "yard":
                return line
        before = page[-1].no
    return None


def _told(found: YardPause | None) -> str:
    if found is None:
        return ""
    until = "" if found.until is None else f" until {as_datetime(found.until).isoformat()}"
    return f", was paused{until}"
