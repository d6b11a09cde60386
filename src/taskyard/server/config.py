"""What a server is told beside its yard."""

from __future__ import annotations

from pathlib import Path

import msgspec

from taskyard.server import limits
from taskyard.settings import Discreet

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
DEFAULT_FOLDER = Path(".taskyard")


class ServerConfig(Discreet, msgspec.Struct, frozen=True, kw_only=True):
    """`folder` holds the secret, the list of tokens and those that are revoked."""

    _hidden = frozenset({"secret"})

    folder: Path = DEFAULT_FOLDER
    secret: str | None = None  # instead of the one in the folder: the same on every server
    allowed_hosts: tuple[str, ...] = ()  # beside those of loopback
    secure_cookie: bool = False  # set where browsers come over TLS
    max_streams: int = limits.MAX_STREAMS
    sample_seconds: float = 2.0
