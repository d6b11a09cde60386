"""One process with the API, the dashboard, upkeep and, if wanted, a worker."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from taskyard.domain.errors import ConfigurationError
from taskyard.engine.log import logger
from taskyard.server import limits
from taskyard.server.app import Server, create_app
from taskyard.server.config import ServerConfig
from taskyard.server.connection import Connection
from taskyard.settings import Discreet
from taskyard.verbs.working import Signals
from taskyard.yard import Yard

BACKLOG = 2048
LAST_ANSWERS = 5.0  # seconds for requests under way when it stops

log = logger("server")


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 8321  # 0: any that is free
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def check(self) -> None:
        if not self.host:
            raise ConfigurationError("the address to listen at is empty; 0.0.0.0 stands for all")
        if not 0 <= self.port <= 65_535:
            raise ConfigurationError(f"a port is from 0 to 65535, not {self.port}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigurationError("TLS needs both a certificate and its key")
        for path in (self.tls_cert, self.tls_key):
            if path is not None and not path.is_file():
                raise ConfigurationError(f"there is no file {path}")

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_tls(self) -> bool:
        return self.tls_cert is not None


class Told(Discreet, msgspec.Struct, frozen=True):
    """What whoever started it should know."""

    _hidden = frozenset({"first_token"})

    url: str
    first_token: str | None  # made now, and never shown again
    first_file: Path


async def serve(
    yard: Yard,
    config: ServerConfig,
    bind: Bind,
    *,
    worker: dict[str, Any] | None,
    tell: Callable[[Told], None],
) -> int:
    """Until SIGTERM or SIGINT: then drain. `worker` are its options; without them the process only
    does the upkeep, as a node that serves no kind. Says with which code the process should end."""
    bind.check()
    server = create_app(yard, _with_names(config, bind))
    _check_tokens(server, bind)
    sock = _listening(bind)
    if not (bind.is_loopback or bind.is_tls):
        log.warning("others can read what is sent: no TLS", host=bind.host)
    http = _Uvicorn(_uvicorn_config(server, bind))
    node = yard.worker(**worker) if worker is not None else yard.worker(slots=1, kinds=())
    server.metrics.watch(lambda: node.watchdog.stalls if node.lease else 0)
    stopped = asyncio.Event()
    try:
        with _signals(stopped):
            async with server:
                answering = asyncio.create_task(http.serve([sock]), name="taskyard-http")
                answering.add_done_callback(lambda _: stopped.set())
                tell(Told(_url(bind, sock), _first_token(server, bind), server.keyring.first_file))
                gc.freeze()  # what is there from the beginning stays: it need not be looked through
                try:
                    code = await node.run_until(stopped)
                finally:
                    server.end_streams()
                    http.should_exit = True
                    await answering
    finally:
        sock.close()
        await yard.close()
    return code


class _Uvicorn(uvicorn.Server):
    """Signals are ours: the worker has to drain too."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _signals(stopped: asyncio.Event) -> Iterator[None]:
    """The first one drains, another one does not wait for it."""
    signals, loop = Signals(stopped), asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, signals.heard)
    try:
        yield
    finally:
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(name)


def _with_names(config: ServerConfig, bind: Bind) -> ServerConfig:
    """A server goes by the address it was told to listen at, if that is one."""
    try:
        named = not ipaddress.ip_address(bind.host).is_unspecified
    except ValueError:
        named = True
    host = f"[{bind.host}]" if ":" in bind.host else bind.host
    hosts = (*config.allowed_hosts, host) if named else config.allowed_hosts
    return msgspec.structs.replace(
        config, allowed_hosts=hosts, secure_cookie=config.secure_cookie or bind.is_tls
    )


def _check_tokens(server: Server, bind: Bind) -> None:
    if not (bind.is_loopback or server.keyring.issued()):
        raise ConfigurationError(
            f"{bind.host} can be reached by others, and there is no token yet: "
            "make one first with `taskyard token add NAME --role admin`"
        )


def _first_token(server: Server, bind: Bind) -> str | None:
    """Nobody could log in without one. Where others could reach the server, it is not made up. Made
    when all else is well: it is shown only once."""
    return server.keyring.first() if bind.is_loopback else None


def _listening(bind: Bind) -> socket.socket:
    family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((bind.host, bind.port))
        sock.listen(BACKLOG)  # whoever comes now waits until it is ready, and is not refused
    except OSError as error:
        sock.close()
        raise ConfigurationError(
            f"cannot listen at {bind.host}:{bind.port}: {error.strerror or error}"
        ) from None
    return sock


def _uvicorn_config(server: Server, bind: Bind) -> uvicorn.Config:
    config = uvicorn.Config(
        server,
        http=Connection,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        ws="none",
        ssl_certfile=bind.tls_cert,
        ssl_keyfile=bind.tls_key,
        limit_concurrency=limits.MAX_CONNECTIONS,
        timeout_graceful_shutdown=int(LAST_ANSWERS),
    )
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise ConfigurationError(f"the certificate or its key cannot be used: {error}") from None
    return config


def _url(bind: Bind, sock: socket.socket) -> str:
    host = f"[{bind.host}]" if ":" in bind.host else bind.host
    return f"{'https' if bind.is_tls else 'http'}://{host}:{sock.getsockname()[1]}"
