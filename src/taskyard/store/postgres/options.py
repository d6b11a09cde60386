"""What a postgresql:// URL says."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from taskyard.domain.errors import ConfigurationError
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
_OURS = frozenset({"namespace", "pgbouncer"})
_MAX_NAMESPACE = 50


class Options(msgspec.Struct, frozen=True, kw_only=True):
    dsn: str
    place: str  # for messages: without the password
    namespace: str = DEFAULT_NAMESPACE
    pgbouncer: bool = False


def read_options(url: str) -> Options:
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    place = _without_password(url)
    unknown = {name for name, _ in query} - _DRIVER - _OURS
    if unknown:
        raise ConfigurationError(f"{place}: unknown option {', '.join(sorted(unknown))}")
    ours = {name: value for name, value in query if name in _OURS}
    namespace = ours.get("namespace", DEFAULT_NAMESPACE)
    _check_namespace(namespace)
    pgbouncer = ours.get("pgbouncer", "0")
    if pgbouncer not in ("0", "1"):
        raise ConfigurationError(f"{place}: pgbouncer must be 0 or 1, not {pgbouncer!r}")
    rest = urlencode([(name, value) for name, value in query if name not in _OURS])
    return Options(
        dsn=urlunsplit(("postgresql", parts.netloc, parts.path, rest, "")),
        place=place,
        namespace=namespace,
        pgbouncer=pgbouncer == "1",
    )


def _check_namespace(namespace: str) -> None:
    plain = namespace.isidentifier() and namespace.isascii() and namespace == namespace.lower()
    if not plain or len(namespace) > _MAX_NAMESPACE:
        raise ConfigurationError(
            f"namespace must be at most {_MAX_NAMESPACE} small letters, digits and _, "
            f"not {namespace!r}"
        )


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    name = f"{user.partition(':')[0]}@" if user else ""
    return f"postgresql://{name}{host or 'localhost'}{parts.path}"
