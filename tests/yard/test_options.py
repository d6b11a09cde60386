"""What may be said beside the arguments, and what the handle tells of the answer."""

from __future__ import annotations

import pytest

from taskyard import Handle, State, TaskRefused, Yard
from taskyard.domain.errors import InvalidOption
from taskyard.domain.task import Clash, Dedup, OnFailure, Until


@pytest.mark.spec("engine-15")
async def test_a_duplicate_replaces_what_waits(yard: Yard) -> None:
    @yard.task()
    async def index(page: int) -> None: ...

    latest = index.options(dedup="site", on_duplicate="replace")
    first = await latest.enqueue(1)
    second = await latest.enqueue(2)
    kept = await index.options(dedup="site").enqueue(3)

    assert (first.duplicate, first.changed) == (False, False)
    assert (second.id, second.duplicate, second.changed) == (first.id, True, True)
    assert (kept.id, kept.duplicate, kept.changed) == (first.id, True, False)
    assert (await first.task()).payload == '{"page":2}'


@pytest.mark.spec("engine-15")
async def test_a_duplicate_pushes_the_time_back(yard: Yard) -> None:
    @yard.task()
    async def save(text: str) -> None: ...

    soon = save.options(dedup="draft", on_duplicate="debounce", delay=100)
    handle = await soon.enqueue("a")
    before = (await handle.task()).run_at
    again = await soon.enqueue("ab")

    assert again.changed
    task = await handle.task()
    assert task.payload == '{"text":"ab"}'
    assert task.run_at > before


@pytest.mark.spec("engine-15")
async def test_who_would_rather_not_wait_is_refused(yard: Yard) -> None:
    @yard.task()
    async def call(number: str) -> None: ...

    await yard.limit_key("line", 0)
    with pytest.raises(TaskRefused, match="key line is held"):
        await call.options(key="line", if_key_held="refuse").enqueue("112")
    await call.options(key="line", if_key_held="wait").enqueue("112")
    assert (await yard.counts())[State.QUEUED] == 1


@pytest.mark.spec("engine-17")
async def test_depends_on_takes_handles_ids_and_new_tasks(yard: Yard) -> None:
    @yard.task()
    async def step(number: int) -> None: ...

    first: Handle[None] = await step.enqueue(1)
    second = step.new(2)
    third = step.options(depends_on=[first, second], on_failure="run").new(3)
    fourth = step.options(depends_on=[third.id]).new(4)
    await yard.enqueue(second, third, fourth)

    task = await yard.get(third.id)
    assert task.depends_on == (first.id, second.id)
    assert (task.on_failure, task.waits_for, task.state) == (OnFailure.RUN, 2, State.PENDING)
    assert (await yard.get(fourth.id)).on_failure is OnFailure.CANCEL


async def test_options_become_the_task(yard: Yard) -> None:
    @yard.task()
    async def work() -> None: ...

    new = work.options(
        dedup="d", dedup_until="start", on_duplicate=Clash.DEBOUNCE, group="g", if_key_held="refuse"
    ).new()
    assert new.dedup == Dedup("d", Until.START, Clash.DEBOUNCE)
    assert (new.group, new.refuse_if_held) == ("g", True)
    later = work.options(on_failure="run", if_key_held="refuse").options(
        on_failure="cancel", if_key_held="wait"
    )
    assert (later.new().on_failure, later.new().refuse_if_held) == (OnFailure.CANCEL, False)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"dedup_until": "noon"}, "dedup_until must be start or end, not 'noon'"),
        ({"on_duplicate": "drop"}, "on_duplicate must be keep or replace or debounce"),
        ({"on_failure": "ignore"}, "on_failure must be cancel or run"),
        ({"if_key_held": "fail"}, "if_key_held must be wait or refuse"),
        ({"depends_on": "an-id"}, "depends_on takes a list"),
        ({"keys": "account"}, "for a single one use key="),
        ({"retries": -1}, "retries must be 0 or more"),
    ],
)
async def test_what_is_wrong_is_said_at_once(yard: Yard, wrong: dict[str, str], text: str) -> None:
    @yard.task()
    async def work() -> None: ...

    with pytest.raises(InvalidOption, match=text):
        work.options(**wrong)  # type: ignore[arg-type]


async def test_on_duplicate_needs_a_key(yard: Yard) -> None:
    @yard.task()
    async def work() -> None: ...

    with pytest.raises(InvalidOption, match="goes with dedup"):
        work.options(on_duplicate="replace").new()


@pytest.mark.spec("lifecycle-5")
def test_no_attempt_takes_longer_than_two_hours_unless_its_kind_says_so(yard: Yard) -> None:
    @yard.task()
    async def plain() -> None: ...

    @yard.task(timeout=10_000)
    async def long() -> None: ...

    assert plain.new().timeout == 7200
    assert long.new().timeout == 10_000
    assert plain.options(timeout=60).new().timeout == 60
