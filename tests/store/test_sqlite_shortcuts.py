"""The short ways for what is plain lead where the long ones do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from taskyard.domain.clock import Instant
from taskyard.domain.lane import LaneChange
from taskyard.domain.outcome import Failed, Outcome, Snoozed, Succeeded, Verdict, decide
from taskyard.domain.rate import Rate
from taskyard.domain.retry import Retry
from taskyard.domain.task import Claimed, Dedup, NewTask, Task, TaskQuery
from taskyard.store.port import ClaimRequest
from taskyard.store.sqlite import alike, candidates, enqueue, finish, thread
from taskyard.store.sqlite import claim as claiming
from taskyard.store.sqlite.clock import SqliteClock
from taskyard.store.sqlite.store import SqliteStore
from taskyard.store.sqlite.tx import span
from tests.conformance.verbs import BROKEN, new, node

Story = Callable[[SqliteStore], Awaitable[Any]]
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LONG_WAYS = [(enqueue, "_save_all"), (candidates, "look"), (finish, "_judge_each")]


class StoppedClock(SqliteClock):
    def now(self) -> Instant:
        return 1_800_000_000_000_000


async def told(story: Story) -> tuple[Any, list[Task]]:
    """What came of it: its answers, and all tasks as they are then."""
    store = SqliteStore(":memory:", clock=StoppedClock())
    try:
        answers = await story(store)
        return answers, await store.find(TaskQuery(limit=1000))
    finally:
        await store.close()


async def told_both_ways(story: Story, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Task]]:
    short = await told(story)
    with monkeypatch.context() as patched:
        for module in (claiming, finish):
            patched.setattr(module, "span", lambda _: None)
        listed = await told(story)
    with monkeypatch.context() as patched:
        patched.setattr(alike, "grouped", lambda *_: None)
        patched.setattr(candidates, "plain", lambda *_: None)
        patched.setattr(finish, "_at_once", lambda *_: False)
        patched.setattr(finish, "_if_all", lambda *_: None)
        patched.setattr(claiming, "span", lambda _: None)
        long = await told(story)
    assert short == listed == long
    return short


@pytest.fixture
def only_short(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("this is the long way")

    for module, name in LONG_WAYS:
        monkeypatch.setattr(module, name, refuse)


def tasks(count: int, **options: Any) -> list[NewTask]:
    prefix = options.pop("prefix", "task")
    return [new(id=f"{prefix}-{n}", payload=f"[{n}]", **options) for n in range(count)]


def ended(task: Claimed, outcome: Outcome | None = None) -> Verdict:
    return decide(task, outcome or Succeeded('"done"'), Retry.fixed(3, delay=5))


@pytest.mark.parametrize(
    ("nos", "ends"),
    [([4], (4, 4)), ([6, 4, 5], (4, 6)), ([4, 6], None), ([1, 2, 4, 5], None), ([0, 1], (0, 1))],
)
def test_a_span_has_no_other_number_in_it(nos: list[int], ends: tuple[int, int] | None) -> None:
    assert span(nos) == ends


@pytest.mark.spec("engine-8", "engine-19")
async def test_neighbours_and_others_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one node has lies in one piece, or around what another one has."""

    async def story(store: SqliteStore) -> object:
        one, other = await node(store, slots=50), await node(store, "other", slots=50)
        await store.enqueue(tasks(40))
        first, between, last = await one.ask(10), await other.ask(10), await one.ask(10, ahead=5)
        around = [ended(task) for task in (*first.tasks, *last.tasks)]
        stale = [replace(verdict, lease=one.lease) for verdict in map(ended, between.tasks)]
        answers = [await store.finish(around), await store.finish(stale)]
        answers.append(await store.finish([ended(task) for task in between.tasks]))
        return answers, first, between, last

    (answers, *_), after = await told_both_ways(story, monkeypatch)

    assert [type(answer).__name__ for answer in answers[1]] == ["Stale"] * 10
    assert sum(task.state == "completed" for task in after) == 35


@pytest.mark.spec("engine-10")
async def test_claiming_counts_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(store: SqliteStore) -> list[set[int]]:
        worker = await node(store)
        await store.enqueue(tasks(3))
        attempts = []
        for _ in range(3):
            claimed = (await worker.ask(3)).tasks
            attempts.append({task.attempt for task in claimed})
            await store.finish([ended(task, Snoozed(0.0)) for task in claimed])
        return attempts

    attempts, _ = await told_both_ways(story, monkeypatch)

    assert attempts == [{1}, {2}, {3}]


@pytest.mark.spec("engine-28")
@pytest.mark.usefixtures("only_short")
async def test_what_is_plain_goes_the_short_way() -> None:
    async def story(store: SqliteStore) -> list[str]:
        worker = await node(store, slots=20)
        later = tasks(10, prefix="later", priority=7, trace=TRACE)
        await store.enqueue([*tasks(10), *later])
        claim = await worker.ask(15, ahead=10)
        verdicts = [ended(task) for task in claim.tasks]
        await store.turn(verdicts, ClaimRequest(lease=worker.lease, number=9, room=1))
        return [task.id for task in claim.tasks]

    claimed, after = await told(story)

    assert claimed == [f"task-{n}" for n in range(10)] + [f"later-{n}" for n in range(10)]
    assert {(task.state, task.result) for task in after} == {("completed", '"done"')}


@pytest.mark.spec("engine-28", "engine-24")
async def test_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(store: SqliteStore) -> object:
        first = [*tasks(6, lane="a"), *tasks(6, prefix="b", priority=2, group="g", timeout=1.5)]
        times = [
            *tasks(5, prefix="delayed", delay=3.25),
            *tasks(5, prefix="dated", run_at=1_700_000_000_000_000, max_charged=9),
            *tasks(5, prefix="late", deadline=1_900_000_000_000_000, requires=("gpu",)),
        ]
        again = [*tasks(8, lane="a"), *tasks(8, prefix="new", lane="a"), tasks(1, prefix="new")[0]]
        twice = [*tasks(4, prefix="x"), *tasks(5, prefix="y", priority=9), tasks(5, prefix="y")[4]]
        calls = (first, times, again, first[:1], twice)
        traced = [*tasks(5, prefix="traced", trace=TRACE), *tasks(5, prefix="untraced")]
        return [await store.enqueue(call) for call in (*calls, traced)]

    answers, after = await told_both_ways(story, monkeypatch)

    assert [type(answer).__name__ for answer in answers[2]] == [
        *["Duplicate"] * 6,
        *["Enqueued"] * 10,
        "Duplicate",
    ]
    assert len(after) == 12 + 15 + 10 + 9 + 10
    assert {task.id for task in after if task.trace == TRACE} == {f"traced-{n}" for n in range(5)}
    assert {task.id: task.priority for task in after}["y-4"] == 9
    assert {task.payload for task in after} == {f"[{n}]" for n in range(8)}


@pytest.mark.spec("engine-11", "engine-12")
@pytest.mark.parametrize(
    "lane",
    [
        LaneChange(),
        LaneChange(capacity=7),
        LaneChange(rate=Rate(5, 60.0, burst=5)),
        LaneChange(capacity=4, rate=Rate(9, 60.0, burst=9)),
    ],
)
async def test_claiming(monkeypatch: pytest.MonkeyPatch, lane: LaneChange) -> None:
    async def story(store: SqliteStore) -> object:
        worker = await node(store, slots=9)
        await store.set_lane("default", lane, actor="ann")
        await store.enqueue([new(id=f"task-{n}", priority=1 + n * 7 % 10) for n in range(40)])
        claims = [await worker.ask(3), await worker.ask(4, ahead=10), await worker.ask(9, ahead=9)]
        await store.finish([ended(task) for task in claims[1].tasks])
        claims.append(await worker.ask(5, ahead=2))
        return claims, await worker.holds()

    await told_both_ways(story, monkeypatch)


@pytest.mark.spec("engine-11")
async def test_claiming_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [1, 9_990, 10_100, 5, 300_000, 7, 11_000]

    async def story(store: SqliteStore) -> object:
        worker = await node(store, slots=9)
        large = [new(id=f"task-{n}", payload=f'"{"é" * size}"') for n, size in enumerate(sizes)]
        await store.enqueue(large)
        first = await worker.ask(3, ahead=2)
        again = await store.finish([ended(first.tasks[2], Failed(BROKEN))])
        return first, again, await worker.ask(5)

    (first, _, last), _ = await told_both_ways(story, monkeypatch)

    claimed = [*first.tasks, *last.tasks]
    assert [task.payload for task in claimed] == [f'"{"é" * size}"' for size in sizes]


@pytest.mark.spec("engine-11", "engine-12")
@pytest.mark.parametrize("change", [LaneChange(), LaneChange(capacity=5)])
async def test_claiming_from_several_lanes_and_of_several_kinds(
    monkeypatch: pytest.MonkeyPatch, change: LaneChange
) -> None:
    async def story(store: SqliteStore) -> object:
        worker = await node(store, slots=9, kinds=("work", "more", "most"))
        await store.set_lane("b", change, actor="ann")
        await store.enqueue(
            [
                new(("work", "more", "most")[n % 3], id=f"task-{n}", lane="aab"[n // 3 % 3])
                for n in range(60)
            ]
        )
        claims = [await worker.ask(4, ahead=n) for n in (0, 5, 9)]
        await store.finish([ended(task) for claim in claims for task in claim.tasks])
        return claims, [await worker.ask(3, ahead=3) for _ in range(6)]

    await told_both_ways(story, monkeypatch)


@pytest.mark.spec("engine-11")
@pytest.mark.parametrize(
    "other",
    [
        {"keys": ("k",)},
        {"deadline": 1},
        {"kind": "more"},
        {"lane": "other"},
    ],
)
async def test_claiming_beside_one_that_is_not_plain(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    async def story(store: SqliteStore) -> object:
        worker = await node(store, slots=9, kinds=("work", "more"))
        await store.enqueue([*tasks(5), new(id="other", **other), *tasks(5, prefix="more")])
        return [await worker.ask(2, ahead=1), await worker.ask(3, ahead=3), await worker.ask(9)]

    await told_both_ways(story, monkeypatch)


@pytest.mark.spec("engine-11", "engine-22")
async def test_claiming_of_several_kinds_with_suspects_among_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(store: SqliteStore) -> object:
        dead = await node(store, "node-a", kinds=("work", "more"))
        await store.enqueue([*tasks(1, prefix="suspect"), new("more", id="suspect-more")])
        await dead.ask(2)
        await store.rescue([dead.lease])
        await store.enqueue(
            [new(("work", "more")[n % 2], id=f"t-{n}", priority=1) for n in range(4)]
        )
        await store.enqueue(
            [new(("work", "more")[n % 2], id=f"u-{n}", priority=9) for n in range(4)]
        )
        alive = await node(store, "node-b", slots=2, kinds=("work", "more"))
        return [task.id for task in (await alive.ask(2, ahead=9)).tasks]

    claimed, _ = await told_both_ways(story, monkeypatch)

    assert claimed == [*(f"t-{n}" for n in range(4)), *(f"u-{n}" for n in range(4))]


@pytest.mark.spec("engine-6", "engine-9")
async def test_finishing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(store: SqliteStore) -> object:
        worker = await node(store, slots=20)
        await store.enqueue(
            [
                *tasks(6),
                new(id="keyed", keys=("k",)),
                new(id="waiting", keys=("k",)),
                new(id="dependent", depends_on=("task-1",)),
            ]
        )
        claimed = {task.id: task for task in (await worker.ask(20)).tasks}
        await store.cancel("task-2", actor="ann")
        verdicts = [
            ended(claimed["task-0"]),
            ended(claimed["task-1"], Failed(BROKEN)),
            ended(claimed["task-2"], Snoozed(1.0)),
            ended(claimed["keyed"]),
        ]
        first = await store.finish(verdicts)
        last = [ended(claimed["task-3"]), ended(claimed["task-0"]), ended(claimed["task-3"])]
        twice = await store.finish([ended(claimed["task-4"]), ended(claimed["task-4"])])
        return first, await store.finish(last), twice, await worker.ask(20)

    (first, last, twice, _), after = await told_both_ways(story, monkeypatch)

    assert [type(answer).__name__ for answer in first] == ["Finished"] * 4
    assert [type(answer).__name__ for answer in last] == ["Finished", "Stale", "Stale"]
    assert [type(answer).__name__ for answer in twice] == ["Finished", "Stale"]
    assert {task.id: task.state for task in after}["task-2"] == "cancelled"


@pytest.mark.spec("engine-6", "engine-19")
async def test_finishing_those_with_keys_and_those_without_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(store: SqliteStore) -> object:
        worker = await node(store, slots=20)
        keyed = [new(id=f"keyed-{n}", keys=(f"k{n % 2}",)) for n in range(6)]
        await store.enqueue([*tasks(6), *keyed, *tasks(6, prefix="more")])
        answers = []
        for _ in range(6):
            claim = await worker.ask(4)
            answers.append((claim, await store.finish([ended(task) for task in claim.tasks])))
            answers.append((claim, await store.finish([ended(task) for task in claim.tasks])))
        return answers

    answers, after = await told_both_ways(story, monkeypatch)

    assert {task.state for task in after} == {"completed"}
    for (claim, finished), (_, stale) in zip(answers[::2], answers[1::2], strict=True):
        assert [type(answer).__name__ for answer in finished] == ["Finished"] * len(claim.tasks)
        assert [type(answer).__name__ for answer in stale] == ["Stale"] * len(claim.tasks)


@pytest.mark.spec("engine-6", "engine-7")
async def test_finishing_those_that_somebody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(store: SqliteStore) -> object:
        worker = await node(store, slots=20)
        only = Dedup("only")
        await store.enqueue(
            [
                new(id="awaited"),
                new(id="dependent", depends_on=("awaited",)),
                new(id="one", dedup=only),
                new(id="holder", keys=("k",)),
                new(id="parked", keys=("k",)),
            ]
        )
        claimed = {task.id: task for task in (await worker.ask(20)).tasks}
        for name in (
            "awaited",
            "one",
            "holder",
        ):  # each for itself, so that all of a call are alike
            store._names.particular = False
            await store.finish([ended(claimed[name])])
        again = await store.enqueue([new(id="two", dedup=only)])
        return again, sorted(task.id for task in (await worker.ask(20)).tasks)

    (again, then), _ = await told_both_ways(story, monkeypatch)

    assert [type(answer).__name__ for answer in again] == ["Enqueued"]
    assert then == ["dependent", "parked", "two"]


@pytest.mark.spec("engine-6", "engine-19")
async def test_finishing_plain_tasks_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(store: SqliteStore) -> object:
        worker = await node(store, slots=20)
        await store.enqueue(tasks(4))
        one, two, three, four = [ended(task) for task in (await worker.ask(20)).tasks]
        anyone = replace(three, lease=0)  # of a worker that does not say under which lease
        calls = (
            [one, one],
            [replace(two, lease=two.lease + 1)],
            [replace(two, attempt=two.attempt + 1)],
            [two],
            [anyone],
            [anyone],
            [four, replace(four, lease=0)],
        )
        return [[type(a).__name__ for a in await store.finish(call)] for call in calls]

    answers, _ = await told_both_ways(story, monkeypatch)

    done, stale = "Finished", "Stale"
    assert answers == [[done, stale], [stale], [stale], [done], [done], [stale], [done, stale]]


@pytest.mark.spec("engine-6")
async def test_results_that_do_not_fit_into_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "RESULTS_AT_ONCE", 25)

    async def story(store: SqliteStore) -> object:
        worker = await node(store, slots=20)
        await store.enqueue(tasks(20))
        claim = await worker.ask(20)
        results = [Succeeded(None if n == 7 else f'"{n}"') for n in range(20)]
        pairs = zip(claim.tasks, results, strict=True)
        return await store.finish([ended(task, result) for task, result in pairs])

    _, after = await told_both_ways(story, monkeypatch)

    kept = {task.id: task.result for task in after}
    assert kept == {f"task-{n}": None if n == 7 else f'"{n}"' for n in range(20)}


@pytest.mark.spec("engine-28")
@pytest.mark.parametrize(("pages", "commits", "most"), [(100, 10, 10_000), (100, 10_000, 400)])
async def test_the_log_is_brought_into_the_database_as_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int, commits: int, most: int
) -> None:
    monkeypatch.setattr(thread, "LOG_PAGES", pages)
    monkeypatch.setattr(thread, "LOG_COMMITS", commits)
    monkeypatch.setattr(thread, "MOST_LOG_PAGES", most)
    path = tmp_path / "yard.db"
    store = SqliteStore(str(path))
    sizes = []
    for _ in range(60):
        await store.enqueue([new(payload=f'"{"x" * 100_000}"')])  # 25 pages, and some more
        sizes.append(path.with_name(f"{path.name}-wal").stat().st_size)
    await store.close()

    assert max(sizes) < 600 * 4096
    with closing(apsw.Connection(str(path))) as db:
        assert db.pragma("integrity_check") == "ok"
