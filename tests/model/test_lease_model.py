from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.model.explore import explore, renumbered
from tests.model.invariants import EVERYTHING
from tests.model.protocol import Protocol
from tests.model.report import count_row, variant_row
from tests.model.variants import CONFIGS, KEYED, TIGHT, VARIANTS, Variant
from tests.model.world import Config, Rules, World

PAGE = Path(__file__).parents[2] / "docs" / "lease_model.md"
SEARCHED = CONFIGS if os.environ.get("TASKYARD_TEST_THOROUGH") else (KEYED,)


@pytest.mark.spec("engine-2", "engine-6", "engine-10", "engine-19", "engine-20", "engine-24")
@pytest.mark.parametrize("config", SEARCHED, ids=str)
def test_every_reachable_world_keeps_the_promises(config: Config) -> None:
    started = time.perf_counter()
    search = explore(config)
    seconds = time.perf_counter() - started
    sys.stdout.write(
        f"\n{config}, {config.attempts} attempts: {len(search.worlds):,} worlds, "
        f"{search.steps:,} steps, {seconds:.1f} s\n"
    )
    assert search.violation is None
    assert count_row(config, search) in PAGE.read_text(encoding="utf-8")


CAUGHT = [
    pytest.param(variant, invariant, id=f"{variant.name}-{invariant}")
    for variant in VARIANTS
    for invariant in variant.caught_by
]


@pytest.mark.spec("engine-2", "engine-10", "engine-13", "engine-19", "engine-20")
@pytest.mark.parametrize(("variant", "invariant"), CAUGHT)
def test_a_broken_protocol_is_caught(variant: Variant, invariant: str) -> None:
    violation = variant.caught(invariant)
    assert violation is not None
    assert violation.invariant == invariant
    assert len(violation.trace) <= 8


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_the_page_tells_the_shortest_trace(variant: Variant) -> None:
    assert variant_row(variant) in PAGE.read_text(encoding="utf-8")


def test_every_invariant_catches_something() -> None:
    caught = {invariant for variant in VARIANTS for invariant in variant.caught_by}
    assert caught == set(EVERYTHING)


def test_worlds_that_differ_in_numbers_only_lead_to_the_same_worlds() -> None:
    """The search counts such worlds as one: their steps must agree."""
    protocol = Protocol(TIGHT, Rules())
    for world in explore(Config(attempts=1)).worlds[::50]:
        expected = {_canonical(step.after) for step in protocol.steps(world)}
        for alike in renumbered(world):
            assert {_canonical(step.after) for step in protocol.steps(alike)} == expected


def _canonical(world: World) -> frozenset[World]:
    return frozenset(renumbered(world))
