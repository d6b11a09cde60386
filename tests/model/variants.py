"""Broken protocols. Each changes one rule, and each must be caught by every invariant named.

The first one named is the one whose trace docs/lease_model.md tells.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.explore import Violation, explore
from tests.model.world import RUNNING, Config, Rules

# The whole model with both limits at 1; then a lane with room to spare, and two running at once,
# each up to two attempts, because the test run is to stay short.
TIGHT = Config(key_limit=1, capacity=1)
KEYED = Config(key_limit=1, capacity=2, attempts=2)
WIDE = Config(key_limit=2, capacity=2, attempts=2)
CONFIGS = (TIGHT, KEYED, WIDE)


@dataclass(frozen=True)
class Variant:
    name: str
    rules: Rules
    caught_by: tuple[str, ...]
    config: Config = TIGHT

    def caught(self, invariant: str) -> Violation | None:
        return explore(self.config, self.rules, watch=(invariant,)).violation


VARIANTS = (
    Variant(
        "no fence",
        Rules(fence=lambda task, attempt: True),
        ("stale", "T", "table", "S", "once"),
    ),
    Variant(
        "fence on the state only",
        Rules(fence=lambda task, attempt: task.state == RUNNING),
        ("S", "stale"),
    ),
    Variant(
        "rescue without lease end",
        Rules(may_rescue=lambda worker: worker.lease != "gone"),
        ("bodies", "M", "C"),
    ),
    Variant(
        "room given back twice",
        Rules(stale_finish_frees_key=True),
        ("room", "stale", "M"),
        KEYED,
    ),
    Variant(
        "claim reuses the attempt",
        Rules(claim_raises_attempt=False),
        ("S", "once"),
    ),
    Variant(
        "cancel overwrites running",
        Rules(cancel_asks_running=False),
        ("room", "bodies", "L"),
        Config(attempts=1),
    ),
    Variant(
        "release is charged",
        Rules(release_charge=1),
        ("charge", "budget"),
    ),
    Variant(
        "beat revives a rescued lease",
        Rules(beat_revives=frozenset({"live", "ended", "gone"})),
        ("lease",),
    ),
    Variant(
        "beat does not reconcile",
        Rules(beat_reconciles=False),
        ("L", "bodies"),
        Config(attempts=1),
    ),
    Variant(
        "an asked cancel is forgotten",
        Rules(asks_survive=False),
        ("asks",),
    ),
    Variant(
        "a revived task counts from zero",
        Rules(revival_keeps_attempt=False),
        ("attempt", "S"),
    ),
)
