from __future__ import annotations

from itertools import product

import pytest

from taskyard.domain.errors import IllegalTransition
from taskyard.domain.state import (
    REVIVABLE,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    Reason,
    State,
    allows,
    require,
    require_revivable,
)

ALLOWED = {
    (before, after, reason)
    for before, targets in TRANSITIONS.items()
    for after, reasons in targets.items()
    for reason in reasons
}
REFUSED = sorted(set(product(State, State, Reason)) - ALLOWED)

# engine-6, word for word.
SPEC = {
    State.PENDING: {State.QUEUED, State.PAUSED, State.CANCELLED, State.FAILED},
    State.QUEUED: {State.RUNNING, State.PAUSED, State.CANCELLED, State.FAILED},
    State.RUNNING: {
        *(State.COMPLETED, State.FAILED, State.CANCELLED, State.PAUSED),
        *(State.PENDING, State.QUEUED),
    },
    State.PAUSED: {State.PENDING, State.QUEUED, State.CANCELLED},
}


@pytest.mark.spec("engine-6")
def test_the_table_is_the_one_of_the_spec() -> None:
    assert {before: set(targets) for before, targets in TRANSITIONS.items()} == SPEC


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize(("before", "after", "reason"), sorted(ALLOWED))
def test_what_the_table_names_is_allowed(before: State, after: State, reason: Reason) -> None:
    assert allows(before, after, reason)
    require("t", before, after, reason)


@pytest.mark.spec("engine-6")
def test_everything_else_is_refused() -> None:
    for before, after, reason in REFUSED:
        assert not allows(before, after, reason)
        with pytest.raises(IllegalTransition):
            require("t", before, after, reason)
    assert len(REFUSED) + len(ALLOWED) == len(State) ** 2 * len(Reason)


@pytest.mark.spec("engine-6")
def test_every_pair_that_is_not_in_the_table_is_refused_for_any_reason() -> None:
    for before, after in product(State, State):
        if after not in SPEC.get(before, set()):
            assert not any(allows(before, after, reason) for reason in Reason)


@pytest.mark.spec("engine-6")
def test_a_refusal_says_what_is_possible_instead() -> None:
    with pytest.raises(IllegalTransition) as refused:
        require("t-1", State.PAUSED, State.RUNNING, Reason.CLAIMED)

    assert str(refused.value) == (
        "task t-1 is paused and cannot become running (claimed); "
        "from paused it can become pending, queued, cancelled"
    )
    assert refused.value.code == "illegal_transition"


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_refusal_says_that_the_task_has_ended(state: State) -> None:
    with pytest.raises(IllegalTransition, match="nothing: it has ended"):
        require("t", state, State.QUEUED, Reason.OPERATOR)


@pytest.mark.spec("engine-6")
def test_terminal_states_are_those_nothing_leads_out_of() -> None:
    assert {State.COMPLETED, State.FAILED, State.CANCELLED} == TERMINAL
    assert {state for state in State if not TRANSITIONS.get(state)} == TERMINAL


@pytest.mark.spec("engine-5", "engine-6")
def test_every_state_is_terminal_waiting_or_running() -> None:
    assert sorted([*TERMINAL, *WAITING, State.RUNNING]) == sorted(State)


@pytest.mark.spec("engine-6")
def test_no_state_leads_to_itself() -> None:
    assert not any(state in targets for state, targets in TRANSITIONS.items())


@pytest.mark.spec("engine-6")
def test_every_state_can_be_reached_and_every_transition_has_a_reason() -> None:
    reached = {after for targets in TRANSITIONS.values() for after in targets}

    assert reached == set(State)
    assert all(reasons for targets in TRANSITIONS.values() for reasons in targets.values())


@pytest.mark.spec("engine-6")
def test_every_reason_is_used() -> None:
    used = {reason for _, _, reason in ALLOWED}

    assert set(Reason) - used == {Reason.CREATED}  # how a row begins


@pytest.mark.spec("engine-6")
def test_only_running_leads_to_completed_and_only_queued_to_running() -> None:
    assert [s for s, targets in TRANSITIONS.items() if State.COMPLETED in targets] == ["running"]
    assert [s for s, targets in TRANSITIONS.items() if State.RUNNING in targets] == ["queued"]


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("state", sorted(set(State) - REVIVABLE))
def test_only_a_failed_or_cancelled_task_can_have_a_new_life(state: State) -> None:
    with pytest.raises(IllegalTransition, match="only a cancelled or failed one can"):
        require_revivable("t", state)


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("state", sorted(REVIVABLE))
def test_a_failed_or_cancelled_task_can_have_a_new_life(state: State) -> None:
    require_revivable("t", state)

    assert state in TERMINAL
