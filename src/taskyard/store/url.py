"""One URL chooses the store."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from taskyard.domain.errors import ConfigurationError
from taskyard.store.passwords import ENCODE, without_secrets
from taskyard.store.port import Store

_FORMS = (
    "sqlite:///yard.db, sqlite:////absolute/path/yard.db, sqlite://:memory:, "
    "postgresql://user@host/database or redis://host"
)


def open_store(url: str) -> Store:
    """The store this URL names; nothing is opened before it is used."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError:  # which may quote it
        raise ConfigurationError(
            f"the server in the URL cannot be read (the brackets of an IPv6 address?); {ENCODE}"
        ) from None
    match scheme:
        case "sqlite":
            return _sqlite(url)
        case "postgresql" | "postgres":
            return _postgres(url)
        case "redis" | "rediss" | "redis+cluster" | "rediss+cluster":
            return _redis(url)
        case "":
            raise ConfigurationError(f"{without_secrets(url)!r} is not a store URL; use {_FORMS}")
        case _:
            raise ConfigurationError(f"there is no store for {scheme}://; use {_FORMS}")


def is_in_memory(url: str) -> bool:
    """Whether what this URL names is seen by one process only, through one store."""
    return url.partition("?")[0] == "sqlite://:memory:"


def allowing_migration(url: str) -> str:
    """The same store, for whoever is told to migrate it although the URL says migrate=0."""
    place, mark, query = url.partition("?")
    kept = [option for option in query.split("&") if option != "migrate=0"]
    return place + (mark + "&".join(kept) if kept else "")


def _sqlite(url: str) -> Store:
    """Imported when it is asked for, like the others."""
    from taskyard.store.sqlite.store import SqliteStore  # noqa: PLC0415

    rest, _, query = url.removeprefix("sqlite:").partition("?")
    options = parse_qs(query, keep_blank_values=True)
    unknown = set(options) - {"namespace"}
    if unknown:
        raise ConfigurationError(
            f"{without_secrets(url)}: unknown option {', '.join(sorted(unknown))}"
        )
    namespace = options.get("namespace", ["taskyard"])[-1]
    plain = namespace.isidentifier() and namespace.isascii()
    if not plain or namespace != namespace.lower():  # SQLite takes A and a for the same
        raise ConfigurationError(
            f"namespace must be small letters, digits and _, not {namespace!r}"
        )
    if rest == "//:memory:":
        return SqliteStore(":memory:", namespace=namespace)
    path = unquote(rest.removeprefix("///"))
    if not rest.startswith("///") or not path:
        raise ConfigurationError(f"{without_secrets(url)!r} names no file; use {_FORMS}")
    return SqliteStore(path, namespace=namespace)


def _postgres(url: str) -> Store:
    """Imported when it is asked for: the driver is an extra."""
    try:
        from taskyard.store.postgres.options import read_options  # noqa: PLC0415
        from taskyard.store.postgres.store import PostgresStore  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "asyncpg":
            raise
        raise ConfigurationError(
            "postgresql:// needs the PostgreSQL client: pip install 'taskyard[postgres]'"
        ) from error
    return PostgresStore(read_options(url))


def _redis(url: str) -> Store:
    """Imported when it is asked for: the driver is an extra."""
    try:
        from taskyard.store.redis.address import parse  # noqa: PLC0415
        from taskyard.store.redis.store import RedisStore  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("redis", "hiredis"):
            raise
        raise ConfigurationError(
            "redis:// needs the Redis client: pip install 'taskyard[redis]'"
        ) from error
    return RedisStore(parse(url))
