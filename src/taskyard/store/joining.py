"""Stores that can enqueue inside a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from taskyard.domain.errors import ConfigurationError
from taskyard.domain.task import Enqueue, NewTask
from taskyard.store.port import Store


@runtime_checkable
class JoiningStore(Protocol):
    """Tasks come and go with the caller's transaction; the caller's driver's errors stay its own.

    It is the caller's connection that is used, and only that one: the store need not be open.
    """

    async def enqueue_in(self, connection: object, tasks: Sequence[NewTask]) -> list[Enqueue]:
        """Save these tasks if and when the transaction of this connection commits."""

    def enqueue_in_sync(self, connection: object, tasks: Sequence[NewTask]) -> list[Enqueue]:
        """The same on a connection that blocks."""


def joining(store: Store) -> JoiningStore:
    if isinstance(store, JoiningStore):
        return store
    raise ConfigurationError(
        "this store has no transactions to enqueue in; that needs postgresql:// or sqlite://"
    )


def type_names(thing: object) -> list[str]:
    """What a thing is, by name: so that no driver is imported that is not installed."""
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(thing).__mro__]
