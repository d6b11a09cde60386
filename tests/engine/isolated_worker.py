"""A worker in a process of its own: `python -m tests.engine.isolated_worker URL LEASE`."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from tests.engine.isolated import isolated_yard


async def _work(url: str, lease: float) -> None:
    await isolated_yard(url).work(lease_seconds=lease, slots=4)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(sys.argv[1], float(sys.argv[2])))
