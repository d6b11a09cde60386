"""The server as an ASGI app: to be run by itself, or mounted in another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.routes import HTTPRoute

import taskyard
from taskyard.domain.errors import TaskyardError
from taskyard.engine.log import logger
from taskyard.engine.redact import without_logins
from taskyard.server import dashboard, docs, health, limits, problems
from taskyard.server.api import (
    actions,
    create,
    crons,
    events,
    keys,
    lanes,
    logs,
    nodes,
    overview,
    queue,
    requests,
    session,
    stats,
    subscriptions,
    tasks,
    tokens,
)
from taskyard.server.asks import ROLE, actor_of, allowed
from taskyard.server.config import ServerConfig
from taskyard.server.feed import Feed
from taskyard.server.following import Following
from taskyard.server.gate import COOKIE, Gate, Receive, Scope, Send, own_path, tell
from taskyard.server.keyring import Keyring
from taskyard.server.metrics import Metrics, metrics_page
from taskyard.server.oldest import Oldest
from taskyard.server.problems import problem
from taskyard.server.sampler import Sampler
from taskyard.server.streams import Streams
from taskyard.server.totals import Totals
from taskyard.yard import Yard

API = (
    tasks, create, actions, logs, requests, queue, subscriptions, lanes, keys, crons, nodes,
    overview, session, tokens, stats, events,
)  # fmt: skip

log = logger("server")


class Server:
    """An ASGI app, with what it needs to live: `start` and `stop`, both idempotent.

    An app that this one is mounted in starts it in its own lifespan (`async with server:`); if it
    does not, the first request does.
    """

    def __init__(self, yard: Yard, config: ServerConfig) -> None:
        self.yard = yard
        self.config = config
        self.keyring = Keyring(config.folder, config.secret)
        self.feed = Feed()
        self.following = Following(yard)
        self.streams = Streams(config.max_streams)
        self.oldest = Oldest(yard.store)
        totals = Totals(yard.store)
        self.metrics = Metrics(yard.store, totals, self.oldest)
        self.sampler = Sampler(
            yard.store, totals, self.feed, config.sample_seconds, self.metrics.measured
        )
        self.litestar = _litestar(self)
        self._gate = Gate(self.litestar, self.keyring, config.allowed_hosts)
        self._starting = asyncio.Lock()
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._started and scope["type"] == "http":
            try:
                await self.start()
            except TaskyardError as error:
                log.error("cannot start", error=without_logins(str(error)))
                if own_path(scope)[1] != health.ALIVE:  # which is no matter of the store
                    await tell(problem(503, "the store cannot be used", code=error.code), send)
                    return
        await self._gate(scope, receive, send)

    async def start(self) -> None:
        async with self._starting:
            if not self._started:
                await self.yard.open()
                self.feed.begin()
                self.following.begin()
                self.sampler.start()
                self.metrics.start()
                self._started = True

    async def stop(self) -> None:
        """The yard is left open: whoever made it closes it."""
        async with self._starting:
            self._started = False
            self.end_streams()
            await self.following.stop()
            await self.sampler.stop()
            await self.metrics.stop()

    def end_streams(self) -> None:
        """Those who watch may go: nothing more will come."""
        self.feed.end()
        self.following.end()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        await self.stop()


def create_app(yard: Yard, config: ServerConfig | None = None) -> Server:
    return Server(yard, config or ServerConfig())


def _litestar(server: Server) -> Litestar:
    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        async with server:
            yield

    app = Litestar(
        route_handlers=[
            health.healthz,
            health.readyz,
            metrics_page,
            Router("/api", route_handlers=[module.routes for module in API]),
            dashboard.shell,
            dashboard.below,
            Router("/api", route_handlers=[docs.openapi, docs.page, docs.asset], tags=["api"]),
        ],
        dependencies={
            "yard": _always(server.yard),
            "keyring": _always(server.keyring),
            "config": _always(server.config),
            "sampler": _always(server.sampler),
            "oldest": _always(server.oldest),
            "metrics": _always(server.metrics),
            "feed": _always(server.feed),
            "following": _always(server.following),
            "streams": _always(server.streams),
            "actor": Provide(actor_of, sync_to_thread=False),
        },
        before_request=allowed,
        exception_handlers={
            problems.Refusal: problems.on_refusal,
            TaskyardError: problems.on_taskyard_error,
            HTTPException: problems.on_http_error,
            Exception: problems.on_unexpected,
        },
        request_max_body_size=limits.MAX_BODY,
        openapi_config=_openapi(),
        lifespan=[lifespan],
        logging_config=None,
        debug=False,
    )
    _each_says_its_role(app)
    return app


def _always(thing: object) -> Provide:
    return Provide(lambda: thing, use_cache=True, sync_to_thread=False)


def _openapi() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Taskyard",
        version=taskyard.__version__,
        use_handler_docstrings=True,
        path="/api/schema",  # what the framework makes of it; docs.py has it where it is looked for
        render_plugins=[JsonRenderPlugin(path="/openapi.json")],
        components=Components(
            security_schemes={
                "token": SecurityScheme(type="http", scheme="bearer"),
                "session": SecurityScheme(type="apiKey", name=COOKIE, security_scheme_in="cookie"),
            }
        ),
        security=[{"token": []}, {"session": []}],
    )


def _each_says_its_role(app: Litestar) -> None:
    """A route that nobody thought about is found when the server is made, not by a stranger."""
    for route in app.routes:
        assert isinstance(route, HTTPRoute), f"nobody asks at {route.path} who may come in"
        for handler in route.route_handlers:
            own = handler.fn.__module__.startswith("taskyard.")
            if own and ROLE not in handler.opt:
                raise AssertionError(f"{route.path} does not say for whom it is")
            if handler.resolve_before_request() is not allowed or handler.cache:
                raise AssertionError(f"nobody asks at {route.path} who may come in")
