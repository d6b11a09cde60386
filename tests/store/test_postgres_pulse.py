"""The line that beats have for themselves: when it is kept and when it is made anew."""

from __future__ import annotations

import asyncio

import pytest

from taskyard.domain.errors import StoreUnavailable
from taskyard.store.postgres.options import read_options
from taskyard.store.postgres.pulse import Line, Pulse

SOON = 0.25  # seconds a beat is waited for


class Far:
    """A server that answers when it is let, and the connections to it that are open."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.made = 0
        self.open = 0

    async def connect(self, _statement: str) -> Line:
        self.made += 1
        self.open += 1
        return Line(self, self.fetch)  # type: ignore[arg-type]

    async def fetch(self, number: int) -> int:
        await self.may_answer.wait()
        return number

    def terminate(self) -> None:
        self.open -= 1


def pulse_to(far: Far, monkeypatch: pytest.MonkeyPatch) -> Pulse:
    pulse = Pulse(read_options("postgresql://postgres@127.0.0.1:1/postgres"))
    monkeypatch.setattr(pulse, "_connect", far.connect)
    return pulse


@pytest.mark.spec("engine-20", "reliability-9")
async def test_a_first_answer_that_comes_late_does_not_cost_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    far = Far()
    pulse = pulse_to(far, monkeypatch)
    with pytest.raises(StoreUnavailable):
        pulse.row("beat", 1, timeout=SOON)
    pulse._started().call_soon_threadsafe(far.may_answer.set)
    assert pulse.row("beat", 2, timeout=20) == 2
    await pulse.stop()
    assert (far.made, far.open) == (1, 0)


@pytest.mark.spec("engine-20", "reliability-9")
@pytest.mark.parametrize(("has_answered", "beats"), [(True, 1), (False, 2)])
async def test_a_line_that_stays_silent_is_given_up(
    monkeypatch: pytest.MonkeyPatch, has_answered: bool, beats: int
) -> None:
    far = Far()
    pulse = pulse_to(far, monkeypatch)
    if has_answered:
        pulse._started().call_soon_threadsafe(far.may_answer.set)
        assert pulse.row("beat", 1, timeout=20) == 1
        pulse._started().call_soon_threadsafe(far.may_answer.clear)
    for _ in range(beats):
        with pytest.raises(StoreUnavailable):
            pulse.row("beat", 2, timeout=SOON)
        assert far.made == 1
    pulse._started().call_soon_threadsafe(far.may_answer.set)
    assert pulse.row("beat", 3, timeout=20) == 3
    await pulse.stop()
    assert (far.made, far.open) == (2, 0)
