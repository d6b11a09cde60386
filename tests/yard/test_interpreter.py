"""What a worker that has its process for itself sets of the interpreter."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest

from taskyard import Yard
from taskyard.verbs.interpreter import TURN, USUAL_TURN, USUAL_YOUNG, YOUNG


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    turn, young = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(turn)
    gc.set_threshold(*young)


async def seen_by_a_body() -> tuple[float, int]:
    """How long threads wait for each other, and how many new objects there are between searches."""
    yard = Yard("sqlite://:memory:")
    seen: list[tuple[float, int]] = []

    @yard.task()
    async def look() -> None:
        seen.append((sys.getswitchinterval(), gc.get_threshold()[0]))
        os.kill(os.getpid(), signal.SIGTERM)

    await look.enqueue()
    await yard.work()
    return seen[0]


@pytest.mark.spec("engine-28")
@pytest.mark.parametrize("usual", USUAL_YOUNG)
async def test_it_is_set_while_it_works(usual: int) -> None:
    sys.setswitchinterval(USUAL_TURN)
    gc.set_threshold(usual, 10, 10)

    turn, young = await seen_by_a_body()

    assert (turn, young) == pytest.approx((TURN, YOUNG))
    assert sys.getswitchinterval() == USUAL_TURN
    assert gc.get_threshold() == (usual, 10, 10)


@pytest.mark.spec("engine-28")
async def test_a_program_that_has_chosen_keeps_its_choice() -> None:
    sys.setswitchinterval(0.001)
    gc.set_threshold(0, 10, 10)  # it looks for itself

    turn, young = await seen_by_a_body()

    assert (turn, young) == pytest.approx((0.001, 0))
    assert sys.getswitchinterval() == pytest.approx(0.001)
    assert gc.get_threshold()[0] == 0
