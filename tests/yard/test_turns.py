"""How long threads of a worker wait for each other."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from taskyard import Yard
from taskyard.verbs.working import TURN, USUAL_TURN


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


async def seen_by_a_body() -> float:
    """The interval while a worker that has the process for itself runs a body."""
    yard = Yard("sqlite://:memory:")
    seen: list[float] = []

    @yard.task()
    async def look() -> None:
        seen.append(sys.getswitchinterval())
        os.kill(os.getpid(), signal.SIGTERM)

    await look.enqueue()
    await yard.work()
    return seen[0]


@pytest.mark.spec("engine-28")
async def test_they_are_short_while_it_works() -> None:
    sys.setswitchinterval(USUAL_TURN)

    assert await seen_by_a_body() == pytest.approx(TURN)
    assert sys.getswitchinterval() == USUAL_TURN


@pytest.mark.spec("engine-28")
async def test_a_program_that_has_chosen_keeps_its_choice() -> None:
    sys.setswitchinterval(0.001)

    assert await seen_by_a_body() == pytest.approx(0.001)
    assert sys.getswitchinterval() == pytest.approx(0.001)
