"""The two servers of `api`, each in a process of its own: ours as it comes, and a bare one.

As a module this is the application that `taskyard serve` is given; run, it is the bare server: the
same framework, HTTP server, settings and event loop, and one endpoint that does nothing.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import uvicorn
from litestar import Litestar, post

from taskyard import Yard
from taskyard.cli.worker import run_on_fast_loop

ENDPOINT = "/api/tasks"

yard = Yard("sqlite:///api.db")


@yard.task()
async def noop(n: int) -> None:
    pass


@post(ENDPOINT)
async def nothing() -> None:
    """Answers 201, as the other one does."""


async def serve_bare() -> int:
    config = uvicorn.Config(
        Litestar([nothing], openapi_config=None, logging_config=None),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        ws="none",
    )
    sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"serving http://127.0.0.1:{sock.getsockname()[1]}", flush=True)
    await uvicorn.Server(config).serve([sock])
    return 0


class Served(NamedTuple):
    pid: int
    port: int


@asynccontextmanager
async def bare(folder: Path) -> AsyncIterator[Served]:
    async with _served([__file__], folder) as served:
        yield served


@asynccontextmanager
async def ours(folder: Path) -> AsyncIterator[Served]:
    """`taskyard serve` without a worker: what is created is measured, not what is run."""
    args = ["-m", "taskyard", "serve", f"{__file__}:yard", "--port", "0", "--no-worker"]
    async with _served([*args, "--log-level", "warning"], folder) as served:
        yield served


@asynccontextmanager
async def _served(args: list[str], folder: Path) -> AsyncIterator[Served]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *args, cwd=folder, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        said = (await process.stdout.readline()).decode()
        assert said.startswith("serving "), f"the server did not start: {said!r}"
        yield Served(process.pid, int(said.split()[1].rpartition(":")[2]))
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()


if __name__ == "__main__":
    run_on_fast_loop(serve_bare())
