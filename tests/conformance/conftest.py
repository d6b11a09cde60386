from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from taskyard.store.port import Store
from tests.conformance.places import MAKERS, Maker, Place, StoreTime, place_of


@pytest.fixture(params=list(MAKERS.values()), ids=list(MAKERS))
def maker(request: pytest.FixtureRequest) -> Maker:
    made: Maker = request.param
    return made


@pytest.fixture
def place(maker: Maker, tmp_path: Path) -> Iterator[Place]:
    with place_of(maker, tmp_path) as made:
        yield made


@pytest.fixture
def time(place: Place) -> StoreTime:
    return place


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    view = place.view()
    await view.open()
    yield view
    await view.close()


@pytest.fixture
async def elsewhere(place: Place, store: Store) -> AsyncIterator[Store]:
    """The same place as another process sees it."""
    view = place.view()
    await view.open()
    yield view
    await view.close()
