from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from taskyard.server.roles import Role
from tests.server.place import Place
from tests.servers.urls import STORES, lent_url


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    await made.server.start()
    yield made
    await made.close()


@pytest.fixture(params=STORES)
async def stored(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """The same on each store."""
    with lent_url(request.param, tmp_path) as url:
        made = Place(tmp_path, url=url)
        await made.server.start()
        yield made
        await made.close()


@pytest.fixture
async def api(place: Place) -> httpx.AsyncClient:
    """An operator."""
    return place.caller(Role.OPERATOR)
