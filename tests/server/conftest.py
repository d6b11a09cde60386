from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from taskyard.server.roles import Role
from tests.server.place import Place


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    await made.server.start()
    yield made
    await made.close()


@pytest.fixture
async def api(place: Place) -> httpx.AsyncClient:
    """An operator."""
    return place.caller(Role.OPERATOR)
