"""What the driver raises comes out as an error of the domain."""

from __future__ import annotations

import asyncpg
import pytest

from taskyard.domain.errors import InvalidOption, StoreUnavailable
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


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (asyncpg.CharacterNotInRepertoireError('invalid byte … "UTF8": 0x00'), "character NUL"),
        (asyncpg.CharacterNotInRepertoireError('invalid byte … "UTF8": 0xff'), "this text: inv"),
        (asyncpg.UntranslatableCharacterError("0xe2 0x98 has no equivalent"), "this text: 0xe2"),
    ],
)
def test_a_text_is_refused_for_what_is_wrong_with_it(error: Exception, said: str) -> None:
    told = translate(error, "here")
    assert isinstance(told, InvalidOption)
    assert said in str(told)
