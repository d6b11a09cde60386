"""What a postgresql:// URL says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from taskyard.domain.errors import ConfigurationError
from taskyard.store.passwords import ENCODE, is_cut
from taskyard.store.postgres.queries import DEFAULT_NAMESPACE

# Those of libpq that asyncpg understands too.
_DRIVER = frozenset(
    {
        "host",
        "port",
        "user",
        "password",
        "passfile",
        "dbname",
        "database",
        "sslmode",
        "sslcert",
        "sslkey",
        "sslrootcert",
        "sslcrl",
        "sslpassword",
        "ssl_min_protocol_version",
        "ssl_max_protocol_version",
        "target_session_attrs",
        "krbsrvname",
        "gsslib",
    }
)
_OURS = frozenset({"namespace", "migrate", "timeout", "pgbouncer", "listen"})
_ADDRESS = frozenset({"host", "port"})
_MAX_NAMESPACE = 50
_LAST_PORT = 65_535
_MAX_DIGITS = 9

DEFAULT_TIMEOUT = 30.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    dsn: str
    place: str  # for messages: without the password
    namespace: str = DEFAULT_NAMESPACE
    migrate: bool = True  # opening brings the schema up to date
    timeout: float = DEFAULT_TIMEOUT  # seconds that one call may take
    pgbouncer: bool | None = None  # whether a pooler is in between; None: look
    listen_dsn: str | None = None  # where LISTEN works, if not at `dsn`

    def __repr__(self) -> str:
        return f"Options({self.place!r})"


def read_options(url: str) -> Options:
    place = _without_password(url)
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    unknown = {name for name, _ in query} - _DRIVER - _OURS
    others = {name for name, value in query if "@" in name + value} - _DRIVER
    if "@" in parts.path + parts.fragment or (others and is_cut(url)):
        raise ConfigurationError(f"the postgresql URL cannot be read; {ENCODE}")
    _check_ports(parts, place)
    if unknown:
        raise ConfigurationError(
            f"{place}: unknown option {', '.join(sorted(unknown))}; those of Taskyard are "
            f"{', '.join(sorted(_OURS))}"
        )
    ours = {name: value for name, value in query if name in _OURS}
    namespace = ours.get("namespace", DEFAULT_NAMESPACE)
    _check_namespace(namespace)
    rest = urlencode([(name, value) for name, value in query if name not in _OURS])
    here = SplitResult("postgresql", parts.netloc, parts.path, rest, "")
    return Options(
        dsn=urlunsplit(here),
        place=place,
        namespace=namespace,
        migrate=_switch(ours, "migrate", place) is not False,
        timeout=_seconds(ours, "timeout", place),
        pgbouncer=_switch(ours, "pgbouncer", place),
        listen_dsn=_elsewhere(here, ours["listen"], place) if "listen" in ours else None,
    )


def _check_ports(parts: SplitResult, place: str) -> None:
    """One host or several, as host, host:port or [address]:port."""
    for server in parts.netloc.rpartition("@")[2].split(","):
        colon, port = server.rpartition("]")[2].rpartition(":")[1:]
        if not colon:
            continue
        if not (port.isdecimal() and port.isascii() and len(port) <= _MAX_DIGITS):
            raise ConfigurationError(f"a port is a number from 1 to {_LAST_PORT}; {ENCODE}")
        if not 0 < int(port) <= _LAST_PORT:
            raise ConfigurationError(
                f"{place}: a port is a number from 1 to {_LAST_PORT}, not {port!r}"
            )


def _check_namespace(namespace: str) -> None:
    plain = namespace.isidentifier() and namespace.isascii() and namespace == namespace.lower()
    if not plain or len(namespace) > _MAX_NAMESPACE:
        raise ConfigurationError(
            f"namespace must be at most {_MAX_NAMESPACE} small letters, digits and _, "
            f"not {namespace!r}"
        )


def _switch(ours: Mapping[str, str], name: str, place: str) -> bool | None:
    match ours.get(name):
        case None:
            return None
        case "0":
            return False
        case "1":
            return True
        case other:
            raise ConfigurationError(f"{place}: {name} must be 0 or 1, not {other!r}")


def _seconds(ours: Mapping[str, str], name: str, place: str) -> float:
    text = ours.get(name)
    if text is None:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigurationError(f"{place}: {name} must be seconds, more than 0, not {text!r}")
    return seconds


def _elsewhere(here: SplitResult, server: str, place: str) -> str:
    """The same user and database at another host and port."""
    if not server or set(server) & set("@/?#"):
        raise ConfigurationError(f"{place}: listen must be host or host:port and nothing else")
    user, at, _ = here.netloc.rpartition("@")
    query = [(name, value) for name, value in parse_qsl(here.query) if name not in _ADDRESS]
    there = here._replace(netloc=f"{user}{at}{server}", query=urlencode(query))
    _check_ports(there, place)
    return urlunsplit(there)


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:  # which may quote it
        raise ConfigurationError(f"the postgresql URL cannot be read; {ENCODE}") from None
    user, _, host = parts.netloc.rpartition("@")
    name = f"{user.partition(':')[0]}@" if user else ""
    return f"postgresql://{name}{host or 'localhost'}{parts.path}"
