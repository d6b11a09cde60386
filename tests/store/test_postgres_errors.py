"""What the driver raises comes out as an error of the domain."""

from __future__ import annotations

import asyncpg
import pytest

from taskyard.domain.errors import StoreUnavailable
from taskyard.store.postgres.errors import Raised, is_lost, translate


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(),
        asyncpg.ConnectionDoesNotExistError("gone"),
        asyncpg.CannotConnectNowError("starting"),
        asyncpg.InternalClientError("cannot switch to state 12"),
    ],
)
def test_a_broken_connection_is_an_unavailable_store(error: Exception) -> None:
    assert isinstance(error, Raised)
    assert is_lost(error)
    assert isinstance(translate(error, "here"), StoreUnavailable)
