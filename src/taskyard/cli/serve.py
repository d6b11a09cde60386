"""`taskyard serve`: API, dashboard, upkeep and a worker in one process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taskyard.cli.application import load_yard
from taskyard.cli.worker import given, listed, run_on_fast_loop
from taskyard.domain.errors import ConfigurationError, InvalidOption
from taskyard.settings import LogFormat, LogLevel, Settings, load, read_size

if TYPE_CHECKING:
    from taskyard.server.run import Told

EXTRA = ("litestar", "uvicorn", "prometheus_client")

Folder = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Where the secret and the list of tokens are kept.",
        show_default=".taskyard",
    ),
]


def serve(
    app: Annotated[
        str | None,
        typer.Argument(
            metavar="[APP]",
            help="The yard: module:attribute or path/to/file.py:attribute.",
            show_default="app of taskyard.toml",
        ),
    ] = None,
    *,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Where to listen.", show_default="127.0.0.1"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="0 for any that is free.", show_default="8321")
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name browsers may use for it; may be repeated.",
            show_default="those of loopback",
        ),
    ] = None,
    folder: Folder = None,
    tls_cert: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A certificate, for TLS.", show_default="none"),
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="Its key.", show_default="none")
    ] = None,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Run no tasks here.")] = False,
    slots: Annotated[
        int | None, typer.Option(metavar="N", help="Most tasks at once.", show_default="100")
    ] = None,
    kinds: Annotated[
        str | None, typer.Option(metavar="A,B", help="Run only these kinds.", show_default="all")
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="How long bodies may go on after SIGTERM.", show_default="30"
        ),
    ] = None,
    log_level: Annotated[
        LogLevel | None, typer.Option(help="Least level shown.", show_default="info")
    ] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(help="How logs look.", show_default="text")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as --log-format json; errors too.")
    ] = False,
) -> None:
    """Serve the API and the dashboard, and run tasks.

    SIGTERM or Ctrl-C lets bodies finish; a second one stops at once.
    """
    settings = load(
        given(
            {
                "app": ("APP", app),
                "server.host": ("--host", host),
                "server.port": ("--port", port),
                "server.allowed_hosts": ("--allowed-host", allowed_host or None),
                "server.folder": ("--folder", folder),
                "server.tls_cert": ("--tls-cert", tls_cert),
                "server.tls_key": ("--tls-key", tls_key),
                "worker.slots": ("--slots", slots),
                "worker.kinds": ("--kinds", listed("--kinds", kinds)),
                "worker.grace": ("--grace", grace),
                "log.level": ("--log-level", log_level),
                "log.format": ("--log-format", LogFormat.JSON if as_json else log_format),
            }
        )
    ).settings
    from taskyard.cli.logs import set_up_logs  # noqa: PLC0415 - structlog is slow to import

    set_up_logs(settings.log.level, settings.log.format)
    if settings.app is None:
        raise InvalidOption(
            "say what to serve: taskyard serve module:attribute, or app = in taskyard.toml"
        )
    yard = load_yard(settings.app)
    require_extra()
    from taskyard.server.config import ServerConfig  # noqa: PLC0415 - the extra may be missing
    from taskyard.server.run import Bind, serve  # noqa: PLC0415

    said = settings.server
    config = ServerConfig(
        folder=Path(said.folder),
        secret=said.secret,
        allowed_hosts=tuple(said.allowed_hosts),
        secure_cookie=said.secure_cookie,
    )
    bind = Bind(
        host=said.host,
        port=said.port,
        tls_cert=_path(said.tls_cert),
        tls_key=_path(said.tls_key),
    )
    works = not no_worker and bool(yard.registry.names)
    options = _worker_options(settings) if works else None
    run_on_fast_loop(serve(yard, config, bind, worker=options, tell=_tell))


def require_extra() -> None:
    """Said before anything is imported that needs it."""
    try:
        for name in EXTRA:
            __import__(name)
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        raise ConfigurationError(
            "the server needs more packages: pip install 'taskyard[server]'"
        ) from error


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def _worker_options(settings: Settings) -> dict[str, Any]:
    limit = settings.worker.memory_limit
    return {
        "slots": settings.worker.slots,
        "kinds": settings.worker.kinds,
        "capabilities": settings.worker.capabilities,
        "grace": settings.worker.grace,
        "lease_seconds": settings.worker.lease,
        "memory_limit": None if limit is None else read_size(limit),
        "keep_logs": settings.log.keep,
    }


def _tell(told: Told) -> None:
    sys.stdout.write(f"serving {told.url}  (dashboard: {told.url}/dashboard)\n")
    if told.first_token is not None:
        sys.stdout.write(
            f"a token for you, kept in {told.first_file} and shown only this once:\n"
            f"{told.first_token}\n"
        )
    elif told.first_file.is_file():
        sys.stdout.write(f"log in with a token; the first one is kept in {told.first_file}\n")
    sys.stdout.flush()
