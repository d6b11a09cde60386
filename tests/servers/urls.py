"""Empty places on real servers, by the kind of their store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from taskyard.domain.task import new_task_id
from tests.servers import postgres, redis
from tests.servers.schemas import schemas

STORES = ("sqlite", "postgres", "redis")


def fresh_url(kind: str, folder: Path) -> str:
    """Somewhere nobody else is."""
    name = f"test_{new_task_id()}"
    match kind:
        case "sqlite":
            return f"sqlite:///{folder / name}.db"
        case "postgres":
            return f"{postgres.shared_url()}?namespace={name}"
        case _:
            return f"{redis.shared_url()}?namespace={name}"


@contextmanager
def lent_url(kind: str, folder: Path) -> Iterator[str]:
    """The same; but a schema of PostgreSQL was used and emptied before, for it takes long to make.

    Whoever borrows it has ended all its processes when it gives it back.
    """
    if kind == "postgres":
        with schemas().lent() as url:
            yield url
    else:
        yield fresh_url(kind, folder)


def neighbour(url: str) -> str:
    """Another namespace on the same place."""
    place, _, _ = url.partition("?")
    return f"{place}?namespace=test_{new_task_id()}"
