"""Plain tasks are saved by a shorter way: what it leaves is what the long one leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from taskyard.domain.clock import micros
from taskyard.domain.errors import InvalidOption, PayloadTooLarge, StaleAttempt
from taskyard.domain.lane import LaneChange, Order
from taskyard.domain.task import Dedup, Duplicate, Enqueued, NewTask, Refused
from taskyard.store.postgres.enqueue import (
    ENQUEUE,
    ENQUEUE_ONE,
    ENQUEUE_PLAIN,
    enqueue_args,
    is_plain,
    one_args,
    plain_args,
)
from tests.conformance.verbs import complete, hold, ids, new, node, running
from tests.store.postgres_place import Yard, connected, yard

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SAVED = """SELECT to_jsonb(t) - 'id' - 'no' - 'seq' - 'created_at' - 'run_at' AS task,
       t.run_at = t.created_at AS at_once, t.seq = t.no AS in_place,
       to_jsonb(r) - 'no' - 'seq' AS ready, r.seq = t.seq AS there
  FROM taskyard.tasks AS t LEFT JOIN taskyard.ready AS r ON r.no = t.no
 WHERE t.id = ANY ($1) ORDER BY t.no"""
PRIORITIES = """SELECT array_agg(DISTINCT r.priority)
  FROM taskyard.ready AS r JOIN taskyard.tasks AS t USING (no) WHERE t.id = ANY ($1)"""

pytestmark = pytest.mark.spec("engine-15", "engine-16", "engine-29")


@pytest.fixture
async def place() -> AsyncIterator[Yard]:
    async with yard() as made:
        yield made


def various() -> list[NewTask]:
    """Of several lanes, kinds, priorities and capabilities; some are alike."""
    return [
        new(),
        new(lane="other", priority=1),
        new("more", requires=("gpu", "disk")),
        new(payload='{"a": "ä\\u0000"}', timeout=0.5, max_charged=9),
        new("more", requires=("disk", "gpu"), trace=TRACE),
        new(),
    ]


async def saved(place: Yard, tasks: Sequence[NewTask]) -> list[Any]:
    async with connected() as connection:
        return await connection.fetch(place.here(SAVED), ids(tasks))


async def by_the_long_way(place: Yard, tasks: Sequence[NewTask]) -> None:
    async with connected() as connection:
        row = await connection.fetchrow(place.here(ENQUEUE), *enqueue_args(0, tasks))
        assert row is not None
        assert row["o_left_out"] is None


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("one_by_one", [False, True])
async def test_both_ways_leave_the_same(place: Yard, known: bool, one_by_one: bool) -> None:
    expected, tasks = various(), various()
    if known:
        await by_the_long_way(place, expected)
    if one_by_one:
        for task in tasks:
            assert await place.store.enqueue([task]) == [Enqueued(task.id)]
    else:
        assert await place.store.enqueue(tasks) == [Enqueued(task.id) for task in tasks]
    if not known:
        await by_the_long_way(place, expected)
    found = await saved(place, tasks)
    assert len(found) == len(tasks)
    assert found == await saved(place, expected)


async def test_the_long_way_is_not_gone_where_nothing_is_new(place: Yard) -> None:
    await place.store.enqueue(various())
    plain, one = various(), new(trace=TRACE)
    async with connected() as connection, connection.transaction():
        # Whoever goes the long way needs this function.
        await connection.execute(place.here("ALTER FUNCTION taskyard.make_queues RENAME TO gone"))
        await connection.execute(place.here(ENQUEUE_PLAIN), *plain_args(0, plain))
        await connection.execute(place.here(ENQUEUE_ONE), *one_args(0, one))
        assert len(await connection.fetch(place.here(SAVED), ids([*plain, one]))) == 7


async def test_an_id_that_is_taken_is_left_out_alone(place: Yard) -> None:
    first, second, third = new(), new(), new()
    await place.store.enqueue([second])
    assert await place.store.enqueue([first, second, third]) == [
        Enqueued(first.id),
        Duplicate(second.id),
        Enqueued(third.id),
    ]
    assert await place.store.enqueue([first]) == [Duplicate(first.id)]
    again = new()
    assert await place.store.enqueue([again, again]) == [Enqueued(again.id), Duplicate(again.id)]
    worker = await node(place.store)
    assert await worker.claim_ids(9) == ids([second, first, third, again])


async def test_a_payload_with_our_separator_in_it_is_kept_as_it_is(place: Yard) -> None:
    for tasks in ([new(payload="[\x1f]"), new()], [new(payload="\x1f\x1f"), new(), new()]):
        assert await place.store.enqueue(tasks) == [Enqueued(task.id) for task in tasks]
        kept = [await place.store.get(task.id) for task in tasks]
        assert [task and task.payload for task in kept] == [task.payload for task in tasks]


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"id": "a\nb"},
        {"id": "i" * 201},
        {"kind": "\x00"},
        {"lane": ""},
        {"priority": 11},
        {"timeout": 0.0},
        {"max_charged": 0},
        {"requires": ("",)},
        {"trace": "no trace"},
        {"payload": "ä" * 500_001},
    ],
)
@pytest.mark.parametrize("among", [0, 2])
async def test_one_that_is_wrong_keeps_all_from_being_saved(
    place: Yard, wrong: dict[str, Any], among: int
) -> None:
    bad = msgspec.structs.replace(new(), **wrong)
    with pytest.raises((InvalidOption, PayloadTooLarge)):
        await place.store.enqueue([*(new() for _ in range(among)), bad, *various()[:among]])
    assert await place.value("SELECT count(*) FROM taskyard.tasks") == 0


@pytest.mark.parametrize("many", [1, 3])
async def test_an_attempt_enqueues_while_it_is_the_accepted_one(place: Yard, many: int) -> None:
    worker = await node(place.store)
    task = await running(place.store, worker)
    by = hold(task)
    tasks = [new(), new(), new()][:many]
    assert await place.store.enqueue(tasks, by=by) == [Enqueued(task.id) for task in tasks]
    assert await place.store.enqueue(tasks, by=by) == [Duplicate(task.id) for task in tasks]
    await complete(place.store, task)
    for late in (tasks, [new() for _ in tasks], [new("unknown") for _ in tasks]):
        with pytest.raises(StaleAttempt):
            await place.store.enqueue(late, by=by)
    assert await place.value("SELECT count(*) FROM taskyard.tasks") == 1 + many


@pytest.mark.parametrize("many", [1, 3])
async def test_a_lane_that_becomes_particular_is_served_by_its_rules(
    place: Yard, many: int
) -> None:
    await place.store.enqueue([new(lane="deep"), new(lane="first")])
    await place.store.set_lane("deep", LaneChange(max_depth=many), actor="me")
    await place.store.set_lane("first", LaneChange(order=Order.FIFO), actor="me")
    answers = await place.store.enqueue([new(lane="deep") for _ in range(many)])
    assert [type(answer) for answer in answers] == [Enqueued] * (many - 1) + [Refused]
    late = [new(lane="first", priority=9), new(lane="first", priority=1)][:many]
    await place.store.enqueue(late)
    assert await place.value(PRIORITIES, ids(late)) == [0]


@pytest.mark.parametrize(
    "options",
    [
        {"keys": ("k",)},
        {"group": "g"},
        {"dedup": Dedup("d")},
        {"depends_on": ("other",)},
        {"refuse_if_held": True},
        {"delay": 0.0},
        {"run_at": 0},
        {"deadline": micros(1e9)},
        {"payload": "[\x1f]"},
    ],
)
def test_what_is_not_plain(options: dict[str, Any]) -> None:
    assert is_plain(new())
    assert not is_plain(new(**options))
