"""Removing any fence predicate from the store must make a test fail.

Usually an eighth of the mutants is tried; `make thorough` tries all.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.crash.mutants import MUTANTS, Mutant
from tests.crash.mutation import PACKAGE, attempt

AT_ONCE = 2
TRIED = MUTANTS if os.environ.get("TASKYARD_TEST_THOROUGH") else MUTANTS[::8]


def _survivors(mutants: Iterable[Mutant], folder: Path) -> list[str]:
    """Each in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "tests.crash.mutation"])
    numbered = [(mutant, folder / str(number)) for number, mutant in enumerate(mutants)]
    with ProcessPoolExecutor(AT_ONCE, context, max_tasks_per_child=1) as pool:
        for _, place in numbered:
            place.mkdir()
        answers = pool.map(attempt, *zip(*numbered, strict=True))
        return [answer for answer in answers if answer is not None]


@pytest.mark.spec("engine-19", "engine-8", "engine-20")
def test_every_mutant_is_noticed(tmp_path: Path) -> None:
    assert _survivors(TRIED, tmp_path) == []


def test_every_mutant_has_its_place() -> None:
    """Also those that are not tried today."""
    places = {mutant.name: (PACKAGE / mutant.file).read_text("utf-8") for mutant in MUTANTS}
    misplaced = [m.name for m in MUTANTS if places[m.name].count(m.text) != 1]
    assert not misplaced


def test_an_unchanged_store_is_not_taken_for_a_mutant(tmp_path: Path) -> None:
    """Otherwise a mutant could be noticed for no reason of its own."""
    example = MUTANTS[0]
    same = Mutant("none", example.file, example.text, example.text, example.tests)

    [answer] = _survivors([same], tmp_path)

    assert "pytest answered 0" in answer
