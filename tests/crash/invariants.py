"""All invariants over one body of evidence."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.bodies import (
    keys_within_limits,
    lanes_within_capacity,
    one_at_a_time,
    terminal_stays,
)
from tests.crash.books import audit_equals_state, nothing_lost, recovers_in_time, within_budget
from tests.crash.evidence import Evidence
from tests.crash.finding import Finding
from tests.crash.graphs import after_those_it_depends_on

CHECKS: tuple[Callable[[Evidence], Finding], ...] = (
    nothing_lost,
    one_at_a_time,
    keys_within_limits,
    lanes_within_capacity,
    terminal_stays,
    audit_equals_state,
    recovers_in_time,
    within_budget,
    after_those_it_depends_on,
)


def check(evidence: Evidence) -> list[Finding]:
    return [one(evidence) for one in CHECKS]


def violations(evidence: Evidence) -> list[str]:
    """One line each, with the letter of the invariant."""
    return [f"{found.letter}: {text}" for found in check(evidence) for text in found.violations]
