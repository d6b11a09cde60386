"""What a redis:// URL says; the password stays out of every message."""

from __future__ import annotations

import math
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from taskyard.domain.errors import ConfigurationError
from taskyard.store.passwords import ENCODE, is_cut

DEFAULT_NAMESPACE = "taskyard"
DEFAULT_PORT = 6379
DEFAULT_TIMEOUT = 15.0
LAST_PORT = 65_535
MAX_DIGITS = 9
SCHEMES = ("redis", "rediss", "redis+cluster", "rediss+cluster")

FORMS = "redis://host:6379/0, rediss:// with TLS, redis+cluster://host:port,host:port"


class Secret(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Shown to nobody by mistake."""

    value: str

    def __repr__(self) -> str:
        return "Secret(…)"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    hosts: tuple[tuple[str, int], ...]
    database: int = 0
    user: str | None = None
    password: Secret | None = None
    tls: bool = False
    cluster: bool = False
    namespace: str = DEFAULT_NAMESPACE
    force: bool = False
    timeout: float = DEFAULT_TIMEOUT  # seconds that one call may take; beats have their own

    def of_cluster(self) -> Address:
        """The same, if that is a cluster."""
        return msgspec.structs.replace(self, cluster=True, database=0)

    def __str__(self) -> str:
        """For messages: without user and password."""
        scheme = ("rediss" if self.tls else "redis") + ("+cluster" if self.cluster else "")
        places = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"{scheme}://{places}" + (f"/{self.database}" if self.database else "")


def parse(url: str) -> Address:
    if is_cut(url):
        raise ConfigurationError(f"the redis URL cannot be read; {ENCODE}")
    parts = urlsplit(url)
    credentials, _, places = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    options = _options(parts.query)
    address = Address(
        hosts=tuple(_host(place) for place in places.split(",")),
        database=_database(parts.path),
        user=unquote(user) or None,
        password=Secret(unquote(password)) if password else None,
        tls=parts.scheme.startswith("rediss"),
        cluster=parts.scheme.endswith("+cluster"),
        namespace=_namespace(options.get("namespace", DEFAULT_NAMESPACE)),
        force=options.get("force") == "1",
        timeout=_seconds(options.get("timeout")),
    )
    if address.cluster and address.database:
        raise ConfigurationError(f"a cluster has no database {address.database}; leave it out")
    if len(address.hosts) > 1 and not address.cluster:
        raise ConfigurationError(
            f"{address} names several servers; name one, or the nodes of a cluster as "
            f"{address.of_cluster()}"
        )
    return address


def _options(query: str) -> dict[str, str]:
    options = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
    unknown = set(options) - {"namespace", "force", "timeout"}
    if unknown:
        raise ConfigurationError(
            f"unknown option {', '.join(sorted(unknown))} in a redis URL; there are namespace, "
            "timeout and force=1"
        )
    return options


def _namespace(name: str) -> str:
    if not (name.isidentifier() and name.isascii()):
        raise ConfigurationError(f"namespace must be letters, digits and _, not {name!r}")
    return name


def _seconds(text: str | None) -> float:
    if text is None:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigurationError(f"timeout must be seconds, more than 0, not {text!r}")
    return seconds


def _host(place: str) -> tuple[str, int]:
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        host, port = place, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host:
        raise ConfigurationError(f"a redis URL names no server; use {FORMS}")
    if not _is_number(port):
        raise ConfigurationError(f"a port is a number from 1 to {LAST_PORT}; {ENCODE}")
    if not 0 < int(port) <= LAST_PORT:
        raise ConfigurationError(f"a port is a number from 1 to {LAST_PORT}, not {port!r}")
    return host, int(port)


def _database(path: str) -> int:
    number = path.strip("/")
    if number and not _is_number(number):
        raise ConfigurationError(f"its path is no number of a Redis database; use {FORMS}")
    return int(number or 0)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
