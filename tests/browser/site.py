"""A real server with a worker, in a process of its own:
`python -m tests.browser.site FOLDER PORT WORKERS [PREFIX]`. With a prefix it is inside another
application.

It says its tokens on stdout, one JSON line, when it is ready, and ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from taskyard import Context, Fatal, Retry, Yard
from taskyard.server.app import Server, create_app
from taskyard.server.config import ServerConfig
from taskyard.server.roles import Role

HOSTILE = "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>"


def make_yard(folder: Path) -> Yard:
    yard = Yard(f"sqlite:///{folder / 'yard.db'}")

    @yard.task(lane="downloads")
    async def download(subscription: int, episode: int = 1) -> dict[str, int]:
        """One episode of a subscription."""
        await asyncio.sleep(random.uniform(0.05, 0.3))
        return {"subscription": subscription, "episode": episode}

    @yard.task(lane="exports", retry=Retry.never())
    async def export(ctx: Context) -> None:
        """All subscriptions as pages."""
        for step in range(3600):
            await ctx.progress(step, 3600, "writing pages")
            await asyncio.sleep(1)

    @yard.task(lane="scans", retry=Retry.fixed(2, delay=0.5))
    async def scan(ctx: Context, subscription: int) -> int:
        """Looks for new episodes."""
        await asyncio.sleep(random.uniform(0.02, 0.1))
        if ctx.attempt == 1 and subscription % 7 == 0:
            raise ConnectionError(f"the feed of subscription {subscription} does not answer")
        return subscription

    @yard.task(lane="mail", retry=Retry.never())
    async def mail(to: str) -> str:
        """A letter to a reader."""
        await asyncio.sleep(random.uniform(0, 0.02))
        if not to.startswith("subscriber") and not (folder / "fixed").exists():
            raise Fatal(f"no such mailbox: {to}")
        return f"sent to {to}"

    @yard.task(lane="mail", retry=Retry.fixed(1, delay=0.01))
    async def publish(text: str) -> None:
        """A note on the front page, which is always closed."""
        raise RuntimeError(text)

    return yard


def below(prefix: str, server: Server) -> FastAPI:
    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with server:
            yield

    app = FastAPI(lifespan=lifespan)
    app.mount(prefix, server)
    return app


async def serve(folder: Path, port: int, workers: int, prefix: str = "") -> None:
    yard = make_yard(folder)
    app = create_app(yard, ServerConfig(folder=folder / "server", sample_seconds=0.5))
    await yard.open()
    crew = [yard.worker(slots=8, node_id=f"worker-{number + 1}") for number in range(workers)]
    for worker in crew:
        await worker.start()
    server = Announced(
        uvicorn.Config(
            below(prefix, app) if prefix else app,
            host="127.0.0.1",
            port=port,
            log_level="error",
            access_log=False,
            timeout_graceful_shutdown=1,  # for those who watch events
        ),
        {role: app.keyring.issue(role, role, days=1, by="test")[0] for role in Role},
    )
    loop = asyncio.get_running_loop()
    threading.Thread(target=_until_stdin_ends, args=(loop, server), daemon=True).start()
    await server.serve()
    for worker in crew:
        await worker.stop(grace=0)
    await yard.close()


class Announced(uvicorn.Server):
    """Says when it can be reached, without handling signals."""

    def __init__(self, config: uvicorn.Config, tokens: dict[Role, str]) -> None:
        super().__init__(config)
        self._tokens = tokens

    async def startup(self, sockets: object = None) -> None:
        await super().startup(None)
        port = self.servers[0].sockets[0].getsockname()[1]
        sys.stdout.write(json.dumps({"port": port, "tokens": self._tokens}) + "\n")
        sys.stdout.flush()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _until_stdin_ends(loop: asyncio.AbstractEventLoop, server: uvicorn.Server) -> None:
    sys.stdin.read()

    def leave() -> None:
        server.should_exit = True

    with contextlib.suppress(RuntimeError):  # it has left already
        loop.call_soon_threadsafe(leave)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
