"""What no index knows is looked at so many tasks at a time: a page may be short."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard.domain.lane import LaneChange
from taskyard.domain.state import State
from taskyard.domain.task import TaskQuery
from taskyard.store.port import Store
from taskyard.store.postgres import read as postgres
from taskyard.store.sqlite import find as sqlite
from tests.conformance.listing import line_of, paged, questions, wanted
from tests.conformance.places import MAKERS, Place
from tests.conformance.test_lists import every_sort
from tests.conformance.verbs import complete, ids, limit, new, node

FEW = 20
LOOKS = {"sqlite": FEW, "postgres": FEW, "redis": 5_000}


@pytest.fixture(params=LOOKS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return MAKERS[request.param](tmp_path)


@pytest.fixture
async def store(place: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setattr(sqlite, "MAX_LOOKS", 5 * FEW)
    monkeypatch.setattr(postgres, "MAX_LOOKS", 5 * FEW)
    made = place.view()
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def looks(request: pytest.FixtureRequest) -> int:
    return LOOKS[request.node.callspec.params["place"]]


@pytest.mark.spec("lifecycle-7")
async def test_a_search_that_stops_early_says_where_to_go_on(store: Store, looks: int) -> None:
    await limit(store, "k", 2)
    oldest = [new(keys=("k",)) for _ in range(2)]
    await store.enqueue(oldest)
    worker = await node(store)
    for task in await worker.claim(2):
        await complete(store, task)
    await store.set_lane("default", LaneChange(paused=True), actor="ann")
    await store.enqueue([new(keys=("k",)) for _ in range(looks + FEW)])
    query = TaskQuery(state=State.COMPLETED, key="k", limit=2)

    first = await store.page(query)
    assert first.tasks == []
    assert first.next is not None

    wanted = [task.id for task in reversed(oldest)]
    assert [line.id for line in await paged(store, query, 2)] == wanted
    assert ids(await store.find(query)) == wanted


@pytest.mark.spec("lifecycle-7")
async def test_a_search_in_more_lists_than_it_may_look_at_goes_on(store: Store) -> None:
    lanes = [f"lane {number}" for number in range(2 * FEW)]
    waiting = [
        new("a" if at % 3 else "b", lane=lane, delay=60) for at in range(6) for lane in lanes
    ]
    await store.enqueue(waiting)
    query = TaskQuery(state=State.PENDING, kind="b", limit=7)
    wanted = [task.id for task in reversed(waiting) if task.kind == "b"]

    assert [line.id for line in await paged(store, query, 7)] == wanted
    assert ids(await store.find(query)) == wanted[:7]


@pytest.mark.spec("lifecycle-7")
@pytest.mark.parametrize("few", [5, 15, 35])
async def test_however_early_searches_stop_they_find_the_same(
    store: Store, place: Place, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(sqlite, "MAX_LOOKS", few)
    monkeypatch.setattr(postgres, "MAX_LOOKS", few)
    tasks = await every_sort(store, place)

    for query in questions(tasks):
        expected = wanted(tasks, query)
        assert await paged(store, query, 3) == [line_of(task) for task in expected], query
        assert await store.find(query) == expected, query
