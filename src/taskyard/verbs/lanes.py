"""Lanes, keys and the yard as a whole: how much may run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from taskyard.domain.errors import InvalidOption
from taskyard.domain.lane import DEFAULT_KEY_LIMIT, Key, KeyRule, Lane, LaneChange, Order
from taskyard.domain.rate import Rate
from taskyard.domain.task import check_name
from taskyard.verbs.base import DEFAULT_ACTOR, Ground
from taskyard.verbs.times import moment

UNSET = msgspec.UNSET
Unset = msgspec.UnsetType
OrderName = Order | Literal["priority", "fifo", "fair"]


class LaneVerbs(Ground):
    async def lanes(self) -> list[Lane]:
        """All lanes, with what waits and runs in them."""
        return await self.store.lanes()

    async def set_lane(
        self,
        name: str,
        *,
        capacity: int | Unset | None = UNSET,
        max_depth: int | Unset | None = UNSET,
        rate: Rate | Unset | None = UNSET,
        order: OrderName | Unset = UNSET,
        ageing: float | Unset | None = UNSET,
        actor: str = DEFAULT_ACTOR,
    ) -> Lane:
        """Change a lane, for all workers and at once; what is not said stays, None is no limit.

        `capacity`: most running at once. `max_depth`: most waiting, beyond which enqueue is
        refused. `rate`: how often something may start. `order`, `ageing`: docs/guides/lanes.md.
        """
        change = LaneChange(
            capacity=capacity,
            max_depth=max_depth,
            rate=rate,
            order=order if isinstance(order, Unset) else _order(order),
            ageing=ageing,
        )
        return await self._change_lane(name, change, actor)

    async def pause_lane(
        self,
        name: str,
        *,
        until: datetime | None = None,
        for_: timedelta | None = None,
        reason: str | None = None,
        actor: str = DEFAULT_ACTOR,
    ) -> Lane:
        """Start nothing new in this lane; what runs goes on, enqueue still works.

        With `until` or `for_` it goes on by itself.
        """
        check_name("lane", name)
        change = LaneChange(
            paused=True,
            paused_reason=reason,
            paused_until=await moment(self.store, until, for_),
        )
        return await self._change_lane(name, change, actor)

    async def resume_lane(self, name: str, *, actor: str = DEFAULT_ACTOR) -> Lane:
        """Let a paused lane go on."""
        return await self._change_lane(name, LaneChange(paused=False), actor)

    async def _change_lane(self, name: str, change: LaneChange, actor: str) -> Lane:
        check_name("lane", name)
        change.check()
        lane = await self.store.set_lane(name, change, actor=actor)
        self._notifier.ring()
        return lane

    async def pause(
        self,
        *,
        until: datetime | None = None,
        for_: timedelta | None = None,
        actor: str = DEFAULT_ACTOR,
    ) -> None:
        """Start nothing new in any lane; with `until` or `for_` it goes on by itself."""
        end = await moment(self.store, until, for_)
        await self.store.pause_yard(True, until=end, actor=actor)
        self._notifier.ring()

    async def is_paused(self) -> bool:
        """Whether nothing new is started in any lane."""
        return await self.store.yard_paused() is not None

    async def resume(self, *, actor: str = DEFAULT_ACTOR) -> None:
        """Let a paused yard go on."""
        await self.store.pause_yard(False, actor=actor)
        self._notifier.ring()

    async def keys(self, limit: int = 100) -> list[Key]:
        """The keys that are held or waited for."""
        return await self.store.keys(limit)

    async def key_rules(self) -> list[KeyRule]:
        """The keys whose limit is not 1, or that have a rate."""
        return await self.store.key_rules()

    async def limit_key(
        self,
        pattern: str,
        limit: int | None = DEFAULT_KEY_LIMIT,
        *,
        rate: Rate | None = None,
        actor: str = DEFAULT_ACTOR,
    ) -> None:
        """How many may hold this key, or each key with this prefix (`host:*`); None: no rule.

        With a `rate`, how often a task with the key may start, for each key by itself.
        """
        if limit is None and rate is not None:
            raise InvalidOption("a rule has a limit: limit_key(pattern, 1, rate=…)")
        await self.store.set_key_rule(pattern, limit, rate=rate, actor=actor)
        self._notifier.ring()


def _order(name: str) -> Order:
    try:
        return Order(name)
    except ValueError:
        raise InvalidOption(f"an order is {', '.join(Order)}, not {name!r}") from None
