"""A task carries the trace it was enqueued in, and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest

from taskyard.domain.errors import InvalidOption
from taskyard.domain.task import Claimed, Clash, Dedup, Duplicate
from taskyard.domain.trace import Origin
from taskyard.store.port import Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    complete,
    enqueued,
    failed,
    finish,
    new,
    node,
    released,
    running,
    seen,
)


def trace(number: int) -> str:
    return f"00-{number:032x}-{number:016x}-01"


ONE, TWO = trace(1), trace(2)

# The ways a task can take into a store: each has a short cut of its own, or none.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "key": {"keys": ("k",)},
    "two keys": {"keys": ("k", "l")},
    "dedup": {"dedup": Dedup("d")},
    "replaces": {"dedup": Dedup("d", clash=Clash.REPLACE)},
    "refuses": {"refuse_if_held": True, "keys": ("k",)},
    "group": {"group": "g"},
    "many retries": {"max_charged": 200},
}


@pytest.mark.parametrize("options", WAYS.values(), ids=list(WAYS))
async def test_it_comes_with_the_claim(store: Store, options: dict[str, Any]) -> None:
    task = await running(store, await node(store), trace=ONE, **options)

    assert task.origin == Origin(ONE, at_once=True)
    assert (await seen(store, task.id)).trace == ONE


@pytest.mark.parametrize("options", WAYS.values(), ids=list(WAYS))
async def test_without_one_there_is_none(store: Store, options: dict[str, Any]) -> None:
    task = await running(store, await node(store), **options)

    assert task.origin is None
    assert (await seen(store, task.id)).trace is None


async def test_each_of_a_call_has_its_own(store: Store) -> None:
    worker = await node(store, slots=20)
    await complete(store, await running(store, worker))  # its lane and its route are known now
    tasks = [new(trace=trace(n) if n % 3 else None) for n in range(1, 13)]
    await store.enqueue(tasks)

    assert origins(await worker.claim(20)) == {
        task.id: task.trace and Origin(task.trace, at_once=True) for task in tasks
    }


async def test_those_claimed_ahead_have_theirs(store: Store) -> None:
    worker = await node(store, slots=1)
    tasks = [new(trace=trace(n)) for n in range(1, 4)]
    await store.enqueue(tasks)

    claim = await worker.ask(1, ahead=2)
    again = await worker.ask_again(1, ahead=2)

    expected = {task.id: Origin(trace(n), at_once=True) for n, task in enumerate(tasks, 1)}
    assert origins(claim.tasks) == origins(again.tasks) == expected


async def test_one_that_was_put_off_says_so(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    await enqueued(store, delay=2.0, trace=ONE)
    await time.advance(3)
    await store.promote()

    assert (await worker.claim_one()).origin == Origin(ONE, at_once=False)


async def test_one_that_waited_for_another_was_due_at_once(store: Store) -> None:
    worker = await node(store)
    before = await enqueued(store)
    await enqueued(store, depends_on=(before,), trace=ONE)
    await complete(store, await worker.claim_one())

    assert (await worker.claim_one()).origin == Origin(ONE, at_once=True)


async def test_later_attempts_have_it_too(store: Store) -> None:
    worker = await node(store)
    first = await running(store, worker, trace=ONE)
    await finish(store, released(first))
    second = await worker.claim_one()
    await finish(store, failed(second, retry=False))
    await store.retry(second.id, actor="ann")
    third = await worker.claim_one()

    traces = [task.origin and task.origin.trace for task in (first, second, third)]
    assert traces == [ONE, ONE, ONE]


@pytest.mark.parametrize("clash", list(Clash))
@pytest.mark.parametrize("newer", [TWO, None], ids=["another", "none"])
async def test_a_duplicate_leaves_it_unless_the_payload_changes(
    store: Store, clash: Clash, newer: str | None
) -> None:
    first = await enqueued(store, dedup=Dedup("d"), trace=ONE)

    [answer] = await store.enqueue([new(dedup=Dedup("d", clash=clash), trace=newer)])

    changed = clash is not Clash.KEEP
    assert answer == Duplicate(first, changed=changed)
    assert (await seen(store, first)).trace == (newer if changed else ONE)


@pytest.mark.parametrize("newer", [TWO, None], ids=["another", "none"])
async def test_one_of_the_same_call_is_replaced_like_any_other(
    store: Store, newer: str | None
) -> None:
    replace = Dedup("d", clash=Clash.REPLACE)
    one, other = new(dedup=replace, trace=ONE), new(dedup=replace, trace=newer)
    await store.enqueue([one, other])

    assert (await seen(store, one.id)).trace == newer


async def test_the_same_id_again_leaves_it(store: Store) -> None:
    first = await enqueued(store, id="twice", trace=ONE)

    await store.enqueue([new(id="twice", trace=TWO), new(trace=TWO)])

    assert (await seen(store, first)).trace == ONE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        ONE.upper().replace("1", "A"),
        ONE + "0",
        ONE + "\n",
        f"00-{0:032x}-{1:016x}-01",
        f"00-{1:032x}-{0:016x}-01",
        f"01-{1:032x}-{1:016x}-01",
        "x" * 1_000_000,
    ],
)
async def test_what_is_no_trace_is_refused(store: Store, text: str) -> None:
    task = new(trace=text)

    with pytest.raises(InvalidOption, match="traceparent"):
        await store.enqueue([task])

    assert await store.get(task.id) is None


def origins(tasks: list[Claimed]) -> dict[str, Origin | None]:
    return {task.id: task.origin for task in tasks}
