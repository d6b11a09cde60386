"""Works on TASKYARD_TEST_URL until the task that it is told of has ended."""

from __future__ import annotations

import asyncio
import sys

from tests.engine.traced_kinds import yard
from tests.engine.waits import ended, working


async def main() -> None:
    async with yard, working(yard):
        await ended(yard.handle(sys.argv[1]))


asyncio.run(main())
