from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import pytest

from taskyard.domain.clock import FIRST, LAST
from taskyard.domain.errors import InvalidOption, PayloadTooLarge
from taskyard.domain.task import (
    MAX_KEYS,
    MAX_NAME,
    MAX_PAYLOAD_BYTES,
    Claimed,
    Dedup,
    NewTask,
    TaskError,
    new_task_id,
)


def new(**options: Any) -> NewTask:
    return NewTask(**{"kind": "work", "payload": "{}", **options})


@pytest.mark.spec("engine-16")
def test_ids_of_later_times_sort_later(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1_700_000_000_000, 1_700_000_000_200))
    monkeypatch.setattr("time.time_ns", lambda: next(clock) * 1_000_000)

    ids = [new_task_id() for _ in range(200)]

    assert ids == sorted(ids)


@pytest.mark.spec("engine-16")
def test_ids_are_unique_also_within_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)

    assert len({new_task_id() for _ in range(10_000)}) == 10_000


@pytest.mark.spec("engine-16")
def test_ids_of_one_millisecond_ascend_but_for_where_new_noise_was_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)

    ids = [new_task_id() for _ in range(1_000)]

    assert sum(later < earlier for earlier, later in pairwise(ids)) <= 1


@pytest.mark.spec("engine-16")
def test_a_forked_child_makes_other_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)
    new_task_id()  # and what is needed for the next ones
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, " ".join(new_task_id() for _ in range(50)).encode())
        os._exit(0)
    os.waitpid(child, 0)

    made = os.read(ours, 10_000).decode().split()

    os.close(ours)
    os.close(theirs)
    assert len(made) == 50
    assert not {new_task_id() for _ in range(50)}.intersection(made)


@pytest.mark.spec("engine-16")
def test_ids_are_26_plain_characters() -> None:
    task_id = new_task_id()

    assert len(task_id) == 26
    assert task_id.isascii()
    assert task_id.isalnum()
    assert task_id == task_id.lower()


@pytest.mark.spec("engine-16")
def test_each_new_task_has_its_own_id() -> None:
    assert new().id != new().id


@pytest.mark.spec("engine-15")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"priority": 1},
        {"priority": 10},
        {"keys": tuple(f"k{n}" for n in range(MAX_KEYS))},
        {"kind": "k" * MAX_NAME},
        {"group": "g" * MAX_NAME},
        {"delay": 0},
        {"run_at": 1},
        {"run_at": FIRST, "deadline": LAST},
        {"requires": ("gpu",), "depends_on": ("a",)},
        {"max_charged": 1},
        {"payload": "x" * MAX_PAYLOAD_BYTES},
        {"dedup": Dedup("once")},
    ],
    ids=str,
)
def test_what_a_store_can_run_is_let_through(options: dict[str, Any]) -> None:
    new(**options).check()


@pytest.mark.spec("engine-15")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": ""}, "kind must not be empty"),
        ({"lane": ""}, "lane must not be empty"),
        ({"id": ""}, "id must not be empty"),
        ({"keys": ("",)}, "key must not be empty"),
        ({"dedup": Dedup("")}, "dedup key must not be empty"),
        ({"kind": "k" * 201}, "kind is longer than 200"),
        ({"lane": "l" * 201}, "lane is longer than 200"),
        ({"keys": ("k" * 201,)}, "key is longer than 200"),
        ({"group": "g" * 201}, "group is longer than 200"),
        ({"kind": "a\nb"}, "cannot be printed"),
        ({"group": "a\x00"}, "group .* cannot be printed"),
        ({"requires": ("a\x00",)}, "capability .* cannot be printed"),
        ({"requires": ("",)}, "capability must not be empty"),
        ({"depends_on": ("a\x00",)}, "depends_on .* cannot be printed"),
        ({"depends_on": ("",)}, "depends_on must not be empty"),
        ({"keys": ("a\x00",)}, "cannot be printed"),
        ({"keys": tuple(f"k{n}" for n in range(17))}, "at most 16 keys, not 17"),
        ({"keys": ("a", "b", "a")}, "named twice: a, b, a"),
        ({"priority": 0}, "from 1 .* to 10 .*, not 0"),
        ({"priority": 11}, "not 11"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"timeout": -1}, "timeout must be more than 0"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"max_charged": 0}, "max_charged must be 1 or more"),
        ({"delay": -0.1}, "delay must be 0 seconds or more"),
        ({"delay": float("nan")}, "delay"),
        ({"delay": float("inf")}, "delay"),
        ({"delay": 1e300}, "delay"),
        ({"delay": 1, "run_at": 1}, "either delay or run_at"),
        ({"run_at": 2**63}, "run_at"),
        ({"deadline": 2**63}, "deadline"),
        ({"run_at": FIRST - 1}, "years 1 to 9999"),
        ({"deadline": LAST + 1}, "years 1 to 9999"),
    ],
    ids=str,
)
def test_what_no_store_could_run_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        new(**options).check()


@pytest.mark.spec("engine-15")
def test_a_payload_is_measured_in_bytes() -> None:
    payload = "ü" * (MAX_PAYLOAD_BYTES // 2)
    new(payload=payload).check()

    with pytest.raises(PayloadTooLarge, match=r"1,000,002 bytes.*pass a reference"):
        new(payload=payload + "ü").check()


@pytest.mark.spec("engine-15")
def test_the_limit_of_a_payload_can_be_set() -> None:
    with pytest.raises(PayloadTooLarge, match="the limit is 3"):
        new(payload="1234").check(max_payload=3)


@pytest.mark.spec("engine-6")
def test_an_error_can_always_be_written_down() -> None:
    error = TaskError("Ö", "no file \udcff", "at \ud800 ☃")

    assert (error.type, error.message, error.stack) == ("Ö", "no file \\udcff", "at \\ud800 ☃")


@pytest.mark.spec("engine-33")
def test_the_idempotency_key_is_the_same_for_every_attempt() -> None:
    def attempt(number: int) -> Claimed:
        return Claimed(1, "task-1", "work", "default", number, 0, 4, 60.0, "{}")

    assert attempt(1).idempotency_key == attempt(2).idempotency_key == "task-1"
