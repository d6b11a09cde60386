"""Calls of enqueue that come while one is under way go to the store together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from taskyard import Duplicate, Enqueued, InvalidTask, NewTask, Refused, Yard
from taskyard.domain.errors import StoreUnavailable, TaskyardError
from taskyard.domain.lane import LaneChange
from taskyard.domain.node import Hold
from taskyard.domain.task import Dedup, Enqueue, TaskQuery
from taskyard.engine.enqueuer import MOST_TASKS, MOST_TEXT, SMALL, _own
from taskyard.store.port import Store
from tests.servers.urls import STORES, fresh_url, lent_url

pytestmark = pytest.mark.spec("engine-28")


class Door:
    """The way into a store: notes the calls, and can be shut."""

    def __init__(self, store: Store) -> None:
        self._into = store.enqueue
        self.calls: list[list[str]] = []  # ids
        self.came = asyncio.Event()  # a call is before the door
        self.open = asyncio.Event()
        self.error: Exception | None = None
        store.enqueue = self._enqueue  # type: ignore[method-assign]

    async def _enqueue(self, tasks: Sequence[NewTask], *, by: Hold | None = None) -> list[Enqueue]:
        self.calls.append([task.id for task in tasks])
        self.came.set()
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return await self._into(tasks, by=by)


@pytest.fixture(params=STORES)
async def yard(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Yard]:
    with lent_url(request.param, tmp_path) as url:
        async with Yard(url) as yard:
            yield yard


@pytest.fixture
def door(yard: Yard) -> Door:
    return Door(yard.store)


def new(task_id: str, **options: Any) -> NewTask:
    return NewTask(kind="work", id=task_id, payload=options.pop("payload", "{}"), **options)


def starts(yard: Yard, *calls: Sequence[NewTask]) -> list[asyncio.Task[list[Enqueue]]]:
    return [asyncio.create_task(yard.enqueue(*tasks)) for tasks in calls]


async def behind(
    yard: Yard, door: Door, *calls: Sequence[NewTask]
) -> list[asyncio.Task[list[Enqueue]]]:
    """These calls, come while another one (of task "first") is before the door."""
    begun = starts(yard, [new("first")], *calls)
    await door.came.wait()
    await asyncio.sleep(0)  # every caller has had its turn
    assert door.calls == [["first"]]
    return begun


async def saved(yard: Yard) -> list[str]:
    tasks = await yard.find(TaskQuery(limit=1000))
    return [task.id for task in reversed(tasks)]


async def test_a_call_that_is_alone_goes_at_once(yard: Yard, door: Door) -> None:
    call = yard.enqueue(new("a"))
    call.send(None)  # its first step, before anything else can happen
    assert door.calls == [["a"]]
    call.close()


async def test_calls_that_come_meanwhile_go_together_in_their_order(yard: Yard, door: Door) -> None:
    begun = await behind(yard, door, [new("a")], [new("b"), new("c")], [new("a")], [])
    door.open.set()

    answers = await asyncio.gather(*begun)

    assert door.calls == [["first"], ["a", "b", "c", "a"]]
    assert answers == [
        [Enqueued("first")],
        [Enqueued("a")],
        [Enqueued("b"), Enqueued("c")],
        [Duplicate("a")],
        [],
    ]
    assert await saved(yard) == ["first", "a", "b", "c"]


async def test_whoever_was_answered_is_in_the_next_group(yard: Yard, door: Door) -> None:
    door.open.set()

    async def caller(name: str) -> None:
        for n in range(5):
            assert await yard.enqueue(new(f"{name}{n}")) == [Enqueued(f"{name}{n}")]

    await asyncio.gather(*(caller(name) for name in "abcdefghij"))
    assert [len(ids) for ids in door.calls] == [1, 10, 10, 10, 10, 9]


async def test_a_group_has_its_bounds(yard: Yard, door: Door) -> None:
    calls = [[new(f"{n} {k}") for k in range(SMALL)] for n in range(MOST_TASKS // SMALL + 1)]
    half = "x" * (MOST_TEXT // 2)
    long = [[new(f"long {n}", payload=f'"{half}"')] for n in range(2)]
    begun = await behind(yard, door, *calls, *long)
    door.open.set()
    await asyncio.gather(*begun)
    assert [len(ids) for ids in door.calls] == [1, MOST_TASKS, SMALL + 1, 1]


async def test_a_large_call_goes_by_itself_and_does_not_wait(yard: Yard, door: Door) -> None:
    begun = await behind(yard, door, [new("a")])
    large = [new(str(n)) for n in range(SMALL + 1)]
    begun += starts(yard, large)
    await asyncio.sleep(0)
    assert [len(ids) for ids in door.calls] == [1, SMALL + 1]
    door.open.set()
    await asyncio.gather(*begun)
    assert door.calls[2:] == [["a"]]


async def test_a_refusal_is_an_answer_and_no_trouble_for_others(yard: Yard, door: Door) -> None:
    await yard.store.set_lane("short", LaneChange(max_depth=1), actor="ann")
    begun = await behind(yard, door, [new("a", lane="short")], [new("b", lane="short")], [new("c")])
    door.open.set()
    _, [a], [b], [c] = await asyncio.gather(*begun)
    assert (a, c) == (Enqueued("a"), Enqueued("c"))
    assert isinstance(b, Refused)
    assert await saved(yard) == ["first", "a", "c"]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (new("wrong", depends_on=("nobody",)), InvalidTask),
        (new("wrong", priority=77), InvalidTask),
        (new("wrong", priority="high"), TypeError),
    ],
    ids=["a dependency nobody knows", "an option out of bounds", "of the wrong type"],
)
async def test_only_the_one_who_is_wrong_hears_of_it(
    yard: Yard, door: Door, wrong: NewTask, error: type[Exception]
) -> None:
    begun = await behind(yard, door, [new("a")], [new("b"), wrong], [new("c"), new("d")])
    door.open.set()
    first, a, refused, c = await asyncio.gather(*begun, return_exceptions=True)
    assert isinstance(refused, error)
    assert (first, a, c) == (
        [Enqueued("first")],
        [Enqueued("a")],
        [Enqueued("c"), Enqueued("d")],
    )
    assert await saved(yard) == ["first", "a", "c", "d"]


@pytest.mark.parametrize("nonsense", [None, 7])
async def test_what_is_no_task_at_all_harms_only_its_caller(
    yard: Yard, door: Door, nonsense: Any
) -> None:
    begun = await behind(yard, door, [new("a")], [nonsense], [new("b", payload=nonsense)])
    door.open.set()
    _, a, *wrong = await asyncio.gather(*begun, return_exceptions=True)
    assert a == [Enqueued("a")]
    assert all(isinstance(one, AttributeError | TypeError) for one in wrong)


async def test_an_unreachable_store_is_asked_once_and_everyone_is_told(
    yard: Yard, door: Door
) -> None:
    begun = await behind(yard, door, [new("a")], [new("b")])
    door.error = StoreUnavailable("gone")
    door.open.set()
    errors = await asyncio.gather(*begun, return_exceptions=True)
    assert [repr(error) for error in errors] == [repr(door.error)] * 3
    assert len({id(error) for error in errors}) == 3
    assert door.calls == [["first"], ["a", "b"]]

    door.error = None
    assert await yard.enqueue(new("a")) == [Enqueued("a")]


async def test_one_who_names_a_task_of_another_call_is_not_in_its_group(
    yard: Yard, door: Door
) -> None:
    """In one call it would depend on the task that "a" is a duplicate of."""
    once = Dedup("once")
    begun = await behind(
        yard,
        door,
        [new("kept", dedup=once)],
        [new("a", dedup=once)],
        [new("b", depends_on=("a",))],
        [new("c", depends_on=("kept",))],
    )
    door.open.set()
    _, kept, a, b, c = await asyncio.gather(*begun, return_exceptions=True)
    assert (kept, a, c) == ([Enqueued("kept")], [Duplicate("kept")], [Enqueued("c")])
    assert isinstance(b, InvalidTask)
    assert door.calls[1:3] == [["kept", "a"], ["b", "c"]]


# --- callers that leave ---


async def test_one_who_leaves_before_the_group_goes_takes_his_tasks_with_him(
    yard: Yard, door: Door
) -> None:
    begun = await behind(yard, door, [new("a")], [new("b")], [new("c")])
    begun[1].cancel()
    begun[3].cancel()
    door.open.set()
    _, a, b, c = await asyncio.gather(*begun, return_exceptions=True)
    assert isinstance(a, asyncio.CancelledError)
    assert isinstance(c, asyncio.CancelledError)
    assert b == [Enqueued("b")]
    assert await saved(yard) == ["first", "b"]


async def test_one_who_leaves_later_does_not_fail_the_others(yard: Yard, door: Door) -> None:
    begun = await behind(yard, door, [new("a")], [new("b")])
    door.came.clear()
    door.open.set()
    await begun[0]
    door.open.clear()
    await door.came.wait()
    begun[1].cancel()
    await asyncio.sleep(0)
    door.open.set()
    _, a, b = await asyncio.gather(*begun, return_exceptions=True)
    assert isinstance(a, asyncio.CancelledError)
    assert b == [Enqueued("b")]


async def test_if_the_first_leaves_the_others_go_on(yard: Yard, door: Door) -> None:
    begun = await behind(yard, door, [new("a")], [new("b")])
    begun[0].cancel()
    door.open.set()
    first, a, b = await asyncio.gather(*begun, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert (a, b) == ([Enqueued("a")], [Enqueued("b")])


async def test_if_all_leave_the_next_goes_at_once(yard: Yard, door: Door) -> None:
    begun = await behind(yard, door, [new("a")], [new("b")])
    for call in begun:
        call.cancel()
    await asyncio.gather(*begun, return_exceptions=True)
    door.open.set()
    assert await yard.enqueue(new("c")) == [Enqueued("c")]
    assert door.calls == [["first"], ["c"]]


async def test_if_the_group_itself_is_cut_down_nobody_waits_for_ever(
    yard: Yard, door: Door
) -> None:
    begun = await behind(yard, door, [new("a")], [new("b", depends_on=("a",))])
    door.came.clear()
    door.open.set()
    await begun[0]
    door.open.clear()
    await door.came.wait()
    [group] = [task for task in asyncio.all_tasks() if task.get_name() == "taskyard-enqueue"]
    group.cancel()
    _, a, b = await asyncio.gather(*begun, return_exceptions=True)
    assert isinstance(a, asyncio.CancelledError)
    assert isinstance(b, asyncio.CancelledError)
    door.open.set()
    assert await yard.enqueue(new("c")) == [Enqueued("c")]


# --- the life of a yard ---


async def test_closing_waits_for_those_who_came_before(yard: Yard, door: Door) -> None:
    begun = await behind(yard, door, [new("a")], [new("b")])
    closing = asyncio.create_task(yard.close())
    await asyncio.sleep(0)
    door.open.set()
    await closing
    assert [await call for call in begun] == [[Enqueued(name)] for name in ("first", "a", "b")]


async def test_closing_does_not_wait_for_those_who_go_on(yard: Yard) -> None:
    saved: list[str] = []

    async def produce(name: str) -> None:
        for n in count():
            await yard.enqueue(new(f"{name}{n}"))
            saved.append(f"{name}{n}")

    producers = [asyncio.create_task(produce(name)) for name in "abc"]
    async with asyncio.timeout(20):
        while len(saved) < 30:  # noqa: ASYNC110 - producers tell nobody
            await asyncio.sleep(0)
        await yard.close()
        ends = await asyncio.gather(*producers, return_exceptions=True)
    assert [type(end) for end in ends] == [StoreUnavailable] * 3
    await yard.open()
    for task_id in saved:
        assert (await yard.get(task_id)).id == task_id


def test_loops_in_two_threads_save_side_by_side(tmp_path: Path) -> None:
    """Groups are of one loop; the other's calls go by themselves, and everyone is answered."""
    yard = Yard(fresh_url("sqlite", tmp_path))
    answers: list[Enqueue] = []

    def produce(name: str) -> None:
        async def one(n: int) -> None:
            answers.extend(await yard.enqueue(new(f"{name}{n}")))

        async def all_of_them() -> None:
            async with asyncio.timeout(20):
                for n in range(0, 100, 5):
                    await asyncio.gather(*(one(n + i) for i in range(5)))

        asyncio.run(all_of_them())

    asyncio.run(yard.open())
    threads = [Thread(target=produce, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers, key=str) == sorted(
        (Enqueued(f"{name}{n}") for name in "ab" for n in range(100)), key=str
    )
    asyncio.run(yard.close())


def test_a_yard_goes_on_with_another_loop(tmp_path: Path) -> None:
    """The first ends in the middle of it all."""
    yard = Yard(fresh_url("sqlite", tmp_path))

    async def cut_short() -> None:
        await yard.open()
        await behind(yard, Door(yard.store), [new("a")], [new("b")])
        del yard.store.enqueue  # the door

    async def anew() -> list[Enqueue]:
        answers = await asyncio.gather(*starts(yard, [new("c")], [new("d")]))
        await yard.close()
        return [answer for [answer] in answers]

    asyncio.run(cut_short())
    assert asyncio.run(anew()) == [Enqueued("c"), Enqueued("d")]


@pytest.mark.parametrize("kind", STORES)
def test_callers_that_block_share_too(kind: str, tmp_path: Path) -> None:
    yard = Yard(fresh_url(kind, tmp_path))
    names = [str(n) for n in range(8)]
    answers: dict[str, list[Enqueue]] = {}

    def call(name: str) -> None:
        answers[name] = yard.sync.enqueue(new(name))

    async def shut(twin: Yard) -> Door:
        await twin.open()
        return Door(twin.store)

    async def all_here(twin: Yard, door: Door) -> None:
        waiting = twin._enqueuer._waiting
        async with asyncio.timeout(20):
            while len(waiting) < len(names) - 1:  # noqa: ASYNC110 - threads tell nobody
                await asyncio.sleep(0)
        door.open.set()

    try:
        door = yard.sync.run(shut)  # type: ignore[arg-type]
        threads = [Thread(target=call, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        yard.sync.run(lambda twin: all_here(twin, door))  # type: ignore[arg-type]
        for thread in threads:
            thread.join()
    finally:
        yard.sync.close()
    assert answers == {name: [Enqueued(name)] for name in names}
    assert [len(ids) for ids in door.calls] == [1, len(names) - 1]


def test_every_error_of_a_store_can_be_given_to_many() -> None:
    """They are copied, one for each caller."""
    for kind in _all(TaskyardError):
        error = kind("why")
        error.__cause__ = ValueError("the reason")
        own = _own(error)
        assert (type(own), own.args, own.__cause__) == (kind, ("why",), error.__cause__)
        assert own is not error


def _all(kind: type[TaskyardError]) -> list[type[TaskyardError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _all(below))]
