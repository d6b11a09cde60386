from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.domain.outcome import (
    POISON_LOSSES,
    Died,
    Failed,
    LostRun,
    Outcome,
    Paused,
    Released,
    Snoozed,
    Stopped,
    Succeeded,
    Verdict,
    decide,
    decide_lost,
    heed,
)
from taskyard.domain.retry import Retry
from taskyard.domain.state import TERMINAL, TRANSITIONS, Reason, State, allows
from taskyard.domain.task import Claimed, TaskError

ERROR = TaskError("ValueError", "it broke")
POLICY = Retry.exponential(3, base=60, cap=300)


def held(*, charged: int = 0, max_charged: int = 4) -> Claimed:
    return Claimed(
        no=7,
        id="t",
        kind="work",
        lane="default",
        attempt=5,
        charged=charged,
        max_charged=max_charged,
        timeout=60,
        payload="{}",
    )


def lost(
    *, started: bool = True, charged: int = 0, max_charged: int = 9, losses: int = 0
) -> LostRun:
    return LostRun(
        no=7,
        id="t",
        attempt=5,
        charged=charged,
        max_charged=max_charged,
        losses=losses,
        started=started,
    )


def alone(run: LostRun) -> Verdict:
    """What becomes of a run that was the only one of its node."""
    [verdict] = decide_lost([run])
    return verdict


def told(verdict: Verdict) -> tuple[State, Reason, int, bool]:
    return verdict.state, verdict.reason, verdict.charge, verdict.keeps_place


@pytest.mark.spec("engine-6", "engine-34")
def test_success_completes_with_the_result() -> None:
    verdict = decide(held(), Succeeded("42"), POLICY)

    assert told(verdict) == (State.COMPLETED, Reason.FINISHED, 1, False)
    assert (verdict.no, verdict.id, verdict.attempt) == (7, "t", 5)
    assert (verdict.result, verdict.error, verdict.delay) == ("42", None, None)


@pytest.mark.spec("engine-2", "lifecycle-8")
@pytest.mark.parametrize(("charged", "delay"), [(0, 60), (1, 120), (2, 240)])
def test_a_failure_within_the_budget_is_tried_again_later(charged: int, delay: float) -> None:
    verdict = decide(held(charged=charged), Failed(ERROR), POLICY)

    assert told(verdict) == (State.PENDING, Reason.ERROR, 1, False)
    assert (verdict.delay, verdict.error) == (delay, ERROR)


@pytest.mark.spec("engine-2", "lifecycle-8")
def test_the_fourth_failure_of_three_retries_is_the_end() -> None:
    verdict = decide(held(charged=3), Failed(ERROR), POLICY)

    assert told(verdict) == (State.FAILED, Reason.ERROR, 1, False)
    assert verdict.error == ERROR


@pytest.mark.spec("lifecycle-9")
def test_a_failure_that_must_not_be_tried_again_is_the_end() -> None:
    verdict = decide(held(), Failed(ERROR, reason=Reason.FATAL, retry=False), POLICY)

    assert told(verdict) == (State.FAILED, Reason.FATAL, 1, False)


@pytest.mark.spec("lifecycle-11")
def test_a_timeout_is_a_failure_with_its_own_reason() -> None:
    late = Failed(ERROR, reason=Reason.TIMEOUT)

    assert told(decide(held(), late, POLICY))[:2] == (State.PENDING, Reason.TIMEOUT)
    assert told(decide(held(charged=3), late, POLICY))[:2] == (State.FAILED, Reason.TIMEOUT)


@pytest.mark.spec("lifecycle-8")
def test_a_delay_that_was_asked_for_is_honoured() -> None:
    assert decide(held(), Failed(ERROR, after=7), POLICY).delay == 7


@pytest.mark.spec("engine-2", "engine-34")
def test_a_snooze_is_not_charged() -> None:
    verdict = decide(held(charged=3), Snoozed(30), POLICY)

    assert told(verdict) == (State.PENDING, Reason.SNOOZED, 0, False)
    assert verdict.delay == 30


@pytest.mark.spec("engine-2", "engine-7", "engine-24")
def test_a_release_is_not_charged_and_keeps_its_place() -> None:
    assert told(decide(held(), Released(), POLICY)) == (State.QUEUED, Reason.RELEASED, 0, True)


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("reason", [Reason.OPERATOR, Reason.SYSTEM, Reason.BODY])
def test_a_stopped_body_cancels_its_task(reason: Reason) -> None:
    assert told(decide(held(), Stopped(reason), POLICY)) == (State.CANCELLED, reason, 0, False)


OUTCOMES: list[Outcome] = [
    Succeeded(),
    Failed(ERROR),
    Failed(ERROR, retry=False),
    Failed(ERROR, reason=Reason.TIMEOUT),
    Failed(ERROR, reason=Reason.FATAL, retry=False),
    Failed(ERROR, reason=Reason.UNDECODABLE, retry=False),
    Snoozed(1),
    Stopped(),
    Stopped(Reason.BODY),
    Released(),
    Paused(),
    Died(ERROR, losses=0),
    Died(ERROR, losses=2),
]


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
@pytest.mark.parametrize("charged", [0, 3])
def test_every_verdict_is_one_the_table_allows(outcome: Outcome, charged: int) -> None:
    verdict = decide(held(charged=charged), outcome, POLICY)

    assert allows(State.RUNNING, verdict.state, verdict.reason)
    assert (verdict.delay is not None) == (verdict.state is State.PENDING)


@pytest.mark.spec("engine-2")
@given(charged=st.integers(0, 20), max_charged=st.integers(1, 20))
def test_no_verdict_lets_a_task_run_beyond_its_budget(charged: int, max_charged: int) -> None:
    verdict = decide(held(charged=charged, max_charged=max_charged), Failed(ERROR), POLICY)

    assert (verdict.state is State.PENDING) == (charged + verdict.charge < max_charged)


@pytest.mark.spec("engine-6", "engine-8")
@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_a_task_asked_to_cancel_does_not_come_back(outcome: Outcome) -> None:
    plain = decide(held(), outcome, POLICY)

    final = heed(plain, "cancel")

    assert final.state in TERMINAL
    assert allows(State.RUNNING, final.state, final.reason)
    assert (final == plain) == (plain.state in TERMINAL)
    assert (final.charge, final.error, final.result) == (plain.charge, plain.error, plain.result)
    assert heed(plain, None) == plain


@pytest.mark.spec("engine-22")
def test_a_body_that_died_alone_is_charged_counted_and_waits() -> None:
    verdict = decide(held(charged=1), Died(ERROR, losses=1), POLICY)

    assert told(verdict) == (State.PENDING, Reason.LOST, 1, False)
    assert (verdict.losses, verdict.delay, verdict.error) == (1, 120.0, ERROR)


@pytest.mark.spec("engine-22")
def test_the_third_death_is_poison_whatever_is_left_of_the_budget() -> None:
    verdict = decide(held(max_charged=9), Died(ERROR, losses=2), POLICY)

    assert told(verdict) == (State.FAILED, Reason.POISON, 1, False)
    assert verdict.losses == 1


@pytest.mark.spec("engine-2")
def test_a_death_that_uses_up_the_budget_is_the_end() -> None:
    verdict = decide(held(charged=3), Died(ERROR, losses=0), POLICY)

    assert told(verdict) == (State.FAILED, Reason.LOST, 1, False)


@pytest.mark.spec("engine-20", "engine-7")
def test_a_lost_run_goes_back_charged_and_in_place() -> None:
    verdict = alone(lost())

    assert told(verdict) == (State.QUEUED, Reason.RESCUED, 1, True)
    assert verdict.losses == 1
    assert verdict.error is not None


@pytest.mark.spec("engine-2", "engine-11", "engine-22")
def test_a_lost_run_that_had_not_started_is_neither_charged_nor_counted() -> None:
    verdict = alone(lost(started=False, charged=8, losses=2))

    assert told(verdict) == (State.QUEUED, Reason.RESCUED, 0, True)
    assert (verdict.losses, verdict.error) == (0, None)


@pytest.mark.spec("engine-22")
def test_the_third_loss_is_poison() -> None:
    assert POISON_LOSSES == 3
    assert told(alone(lost(losses=1)))[:2] == (State.QUEUED, Reason.RESCUED)
    assert told(alone(lost(losses=2)))[:2] == (State.FAILED, Reason.POISON)


@pytest.mark.spec("engine-2", "engine-20")
def test_a_loss_that_uses_up_the_budget_is_the_end() -> None:
    assert told(alone(lost(charged=1, max_charged=3)))[0] is State.QUEUED
    assert told(alone(lost(charged=2, max_charged=3)))[:2] == (State.FAILED, Reason.LOST)


@pytest.mark.spec("engine-20", "engine-6")
@pytest.mark.parametrize("started", [True, False])
def test_a_lost_run_that_was_asked_to_stop_is_cancelled(started: bool) -> None:
    run = LostRun(
        no=7,
        id="t",
        attempt=5,
        charged=0,
        max_charged=1,
        losses=2,
        started=started,
        asked="cancel",
    )

    assert told(alone(run))[:2] == (State.CANCELLED, Reason.OPERATOR)


@pytest.mark.spec("engine-6", "engine-22")
@given(
    started=st.booleans(),
    charged=st.integers(0, 9),
    max_charged=st.integers(1, 9),
    losses=st.integers(0, 5),
)
def test_every_verdict_on_a_lost_run_is_one_the_table_allows(
    started: bool, charged: int, max_charged: int, losses: int
) -> None:
    verdict = alone(lost(started=started, charged=charged, max_charged=max_charged, losses=losses))

    assert allows(State.RUNNING, verdict.state, verdict.reason)
    if started and verdict.state is State.QUEUED:
        assert charged + 1 < max_charged
        assert losses + 1 < POISON_LOSSES


@pytest.mark.spec("engine-25", "engine-2", "engine-7")
def test_a_paused_body_is_not_charged_and_keeps_its_place() -> None:
    assert told(decide(held(), Paused(), POLICY)) == (State.PAUSED, Reason.OPERATOR, 0, True)


@pytest.mark.spec("engine-25", "engine-6")
@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_a_task_asked_to_pause_is_paused_unless_it_has_ended(outcome: Outcome) -> None:
    plain = decide(held(), outcome, POLICY)

    final = heed(plain, "pause")

    assert final.state is (plain.state if plain.state in TERMINAL else State.PAUSED)
    assert allows(State.RUNNING, final.state, final.reason)
    assert (final.charge, final.error, final.delay) == (plain.charge, plain.error, plain.delay)
    assert (final.keeps_place, final.losses) == (plain.keeps_place, plain.losses)


runs = st.lists(
    st.builds(
        LostRun,
        no=st.integers(1, 99),
        id=st.just("t"),
        attempt=st.integers(1, 9),
        charged=st.integers(0, 9),
        max_charged=st.integers(1, 9),
        losses=st.integers(0, 3),
        started=st.booleans(),
        asked=st.sampled_from((None, None, "cancel", "pause")),
    ),
    max_size=6,
)


@pytest.mark.spec("engine-22")
@given(runs=runs)
def test_every_death_is_blamed_on_a_run_that_had_started(runs: list[LostRun]) -> None:
    verdicts = decide_lost(runs)
    blamed = [run for run, one in zip(runs, verdicts, strict=True) if one.losses]

    assert [(one.no, one.id, one.attempt) for one in verdicts] == [
        (run.no, run.id, run.attempt) for run in runs
    ]
    assert all(run.started for run in blamed)
    assert bool(blamed) == any(run.started for run in runs)
    for one in verdicts:
        assert one.losses == one.charge == (one.error is not None)
        assert allows(State.RUNNING, one.state, one.reason)


@pytest.mark.spec("engine-22")
@given(runs=runs)
def test_a_suspect_is_blamed_only_where_no_other_ran(runs: list[LostRun]) -> None:
    others = any(run.started and run.losses == 0 for run in runs)
    for run, one in zip(runs, decide_lost(runs), strict=True):
        if run.losses == 0:
            assert one.losses == run.started
        else:
            assert one.losses == (run.started and not others)
        if not one.losses and run.asked is None:
            assert told(one) == (State.QUEUED, Reason.RESCUED, 0, True)


@pytest.mark.spec("engine-22")
@given(neighbours=st.integers(0, 5))
def test_a_task_that_kills_its_node_each_time_is_poison_after_three(neighbours: int) -> None:
    """However many innocents are with it at first; then it runs alone."""
    losses = deaths = 0
    while True:
        beside = [] if losses else [lost() for _ in range(neighbours)]
        one, *_ = decide_lost([lost(losses=losses, max_charged=99), *beside])
        losses, deaths = losses + one.losses, deaths + 1
        if one.state is State.FAILED:
            break
    assert (one.reason, losses, deaths) == (Reason.POISON, POISON_LOSSES, POISON_LOSSES)


@pytest.mark.spec("engine-25", "engine-20")
def test_a_lost_run_that_was_asked_to_pause_is_paused_in_place() -> None:
    run = LostRun(
        no=7, id="t", attempt=5, charged=0, max_charged=9, losses=0, started=True, asked="pause"
    )

    assert told(alone(run)) == (State.PAUSED, Reason.OPERATOR, 1, True)


FAILED_REASONS = sorted(TRANSITIONS[State.RUNNING][State.FAILED])


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("reason", FAILED_REASONS)
@pytest.mark.parametrize("retry", [True, False])
def test_every_verdict_on_a_failure_is_one_the_table_allows(reason: Reason, retry: bool) -> None:
    outcome = Failed(ERROR, reason, retry=retry)
    verdict = decide(held(), outcome, POLICY)

    assert allows(State.RUNNING, verdict.state, verdict.reason)
