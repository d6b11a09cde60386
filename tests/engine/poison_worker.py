"""A worker that its tasks may kill: `python -m tests.engine.poison_worker URL`."""

from __future__ import annotations

import asyncio
import sys

from taskyard import Yard
from tests.engine import poison_kinds

SLOTS = 50


def poison_yard(url: str) -> Yard:
    """A yard on this store with the kinds of tests.engine.poison_kinds."""
    made = Yard(url)
    for kind in poison_kinds.yard.registry:
        made.registry.add(kind)
    return made


if __name__ == "__main__":
    asyncio.run(poison_yard(sys.argv[1]).work(slots=SLOTS))
