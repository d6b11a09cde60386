"""Searches of a yard that was filled a moment ago: nobody has told the planner how large it is."""

from __future__ import annotations

import msgspec
import pytest

from taskyard.domain.task import SHORT_PAYLOAD, TaskQuery
from taskyard.store.postgres import read
from tests.conformance.verbs import new
from tests.store.postgres_place import Yard, yard

TASKS = 40_000
CALL = 1_000


@pytest.mark.spec("lifecycle-7", "engine-29")
@pytest.mark.parametrize("after", [None, TASKS // 2])
async def test_a_search_reads_no_more_of_a_table_that_was_not_analyzed(after: int | None) -> None:
    query = TaskQuery(kind="rare", after=after, limit=50)
    async with yard(unused=True) as place:
        await place.value("ALTER TABLE taskyard.tasks SET (autovacuum_enabled = false)")
        await place.store.enqueue([new("rare")])
        for _ in range(TASKS // CALL):
            await place.store.enqueue([new("common") for _ in range(CALL)])

        unknown = await pages_of(place, query)
        await place.value("ANALYZE taskyard.tasks")
        known = await pages_of(place, query)

    assert unknown < 1.2 * known


async def pages_of(place: Yard, query: TaskQuery) -> int:
    """How many a search looks at."""
    page = "SELECT taskyard.page($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
    explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {page}"
    found = await place.value(explain, *read._asked(query), SHORT_PAYLOAD)
    [plan] = msgspec.json.decode(found)
    return int(plan["Plan"]["Shared Hit Blocks"]) + int(plan["Plan"]["Shared Read Blocks"])
