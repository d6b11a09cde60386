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
        ctx.log.info("begun", into="/srv/media/pages")
        for step in range(3600):
            await ctx.progress(step, 3600, "writing pages")
            ctx.log.info("page written", page=step + 1, bytes=random.randint(9_000, 90_000))
            if step % 9 == 4:
                ctx.log.warning("no picture, a plain one is used", subscription=step + 11)
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
    async def publish(ctx: Context, text: str) -> None:
        """A note on the front page, which is always closed."""
        ctx.log.info("front page opened", address="https://media.example/front")
        ctx.log.debug("session kept for the next try")
        ctx.log.warning("refused: %s", text)
        raise RuntimeError(text)

    @yard.task(lane="transcripts", retry=Retry.fixed(1, delay=0.01))
    async def transcribe(ctx: Context, speech: str) -> None:
        """What is said in an episode, line by line."""
        said, heard = 0, folder / speech
        while True:
            lines = heard.read_text().splitlines() if heard.exists() else []
            for line in lines[said:]:
                level, _, text = line.partition(" ")
                if level == "end":
                    return
                getattr(ctx.log, level)(text.encode().decode("unicode_escape"))
            said = len(lines)
            await asyncio.sleep(0.02)

    @yard.task(lane="transcripts", retry=Retry.fixed(2, delay=0.01))
    async def index(ctx: Context, words: int) -> None:
        """Of the words of all transcripts, which succeeds at the third attempt."""
        for number in range(1, words + 1):
            ctx.log.info("word %s", number)
        if ctx.attempt < 3:
            raise RuntimeError("once more")

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
    crew = [
        yard.worker(slots=8, node_id=f"worker-{number + 1}", keep_logs="debug")
        for number in range(workers)
    ]
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
