"""Moments, as users say them."""

from __future__ import annotations

from datetime import datetime, timedelta

from taskyard.domain.clock import Instant, micros
from taskyard.domain.errors import InvalidOption
from taskyard.options import instant
from taskyard.store.port import Store


async def moment(store: Store, until: datetime | None, for_: timedelta | None) -> Instant | None:
    """When something ends that was said to last until then, or for so long."""
    if until is not None and for_ is not None:
        raise InvalidOption("give either until or for_, not both")
    if for_ is not None:
        if for_ <= timedelta(0):
            raise InvalidOption(f"for_ is a time from now on, not {for_}")
        return await store.now() + micros(for_.total_seconds())
    return instant("until", until)
