"""Each check passes on a good record and fails on a bad one."""

from __future__ import annotations

from typing import Any

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.lane import Audited
from taskyard.domain.state import Reason, State
from taskyard.domain.task import FailedAttempt, OnFailure, Task
from tests.crash.evidence import NANOS, Evidence, NodeSeen, Seen
from tests.crash.invariants import check, violations
from tests.crash.record import Line, What

EPOCH = 1_700_000_000 * SECOND  # the wall clock when boot time is 0
A, B = 11, 22  # processes


def line(what: What, at: float, pid: int = A, task: str = "t", **more: Any) -> Line:
    """`at` in seconds."""
    wall = EPOCH + round(at * SECOND)
    return Line(what=what, at=round(at * NANOS), wall=wall, pid=pid, task=task, **more)


def body(start: float, end: float, attempt: int = 1, how: str = "ok", **more: Any) -> list[Line]:
    return [
        line(What.START, start, attempt=attempt, **more),
        line(What.END, end, attempt=attempt, how=how, **more),
    ]


def lost_body(start: float, attempt: int = 1, **more: Any) -> Line:
    return line(What.START, start, attempt=attempt, **more)


def task(name: str = "t", *, attempt: int = 1, ended: float = 10.0, **more: Any) -> Task:
    known: dict[str, Any] = {
        "no": 1,
        "kind": "quick",
        "lane": "default",
        "priority": 5,
        "seq": 1,
        "payload": "{}",
        "state": State.COMPLETED,
        "reason": Reason.FINISHED,
        "charged": 1,
        "max_charged": 4,
        "timeout": 60.0,
        "created_at": EPOCH,
        "run_at": EPOCH,
        "ended_at": EPOCH + round(ended * SECOND),
        "result": str(attempt),
    }
    return Task(id=name, attempt=attempt, **(known | more))


def audited(action: str, at: float, name: str = "t") -> Audited:
    return Audited(1, EPOCH + round(at * SECOND), "system", action, f"task:{name}")


def rescued(at: float, attempt: int = 1) -> FailedAttempt:
    return FailedAttempt(attempt, Reason.RESCUED, EPOCH + round(at * SECOND))


def broken(lines: list[Line], *tasks: Task, **more: Any) -> set[str]:
    """The letters of what is violated."""
    more.setdefault("audit", [])
    found = violations(Evidence(lines=lines, tasks=tasks or (task(),), **more))
    return {text[0] for text in found}


def a_good_run(**more: Any) -> dict[str, Any]:
    """One process is killed; another takes its task over and ends it."""
    good: dict[str, Any] = {
        "lines": [
            line(What.SAVED, 0.0),
            lost_body(1.0, keys=("k",), lane="narrow"),
            line(What.KILL, 2.0, task=""),
            *body(3.0, 4.0, 2, pid=B, keys=("k",), lane="narrow"),
            *body(4.6, 4.7, pid=B, task="u"),
        ],
        "tasks": [
            task(attempt=2, ended=4.5, failures=(rescued(2.5),)),
            task("u", depends_on=("t",), ended=4.8),
        ],
        "audit": [audited("rescued", 2.5)],
        "seen": [Seen(5 * NANOS, "t", State.COMPLETED)],
        "nodes": [NodeSeen(2 * NANOS, A, 1), NodeSeen(20 * NANOS, A, 0)],
        "capacities": {"narrow": 1},
    }
    return good | more


def test_a_good_run_breaks_nothing() -> None:
    found = check(Evidence(**a_good_run()))

    assert [text for one in found for text in one.violations] == []
    assert all(one.checked > 0 for one in found)


def test_l_an_acknowledged_task_is_gone() -> None:
    assert broken([line(What.SAVED, 0.0, task="other")]) == {"L"}


def test_l_an_acknowledged_task_has_not_ended() -> None:
    waiting = task(state=State.QUEUED, reason=Reason.RELEASED, ended_at=None)

    assert broken([line(What.SAVED, 0.0)], waiting) == {"L"}


def test_s_two_bodies_of_a_task_overlap() -> None:
    lines = [*body(1.0, 3.0, 1), *body(2.0, 4.0, 2, pid=B)]

    assert broken(lines, task(attempt=2)) == {"S"}


def test_s_a_body_overlaps_one_whose_process_was_not_dead_yet() -> None:
    lines = [
        lost_body(1.0),
        *body(2.0, 4.0, 2, pid=B),
        line(What.KILL, 3.0, task=""),
    ]

    found = broken(lines, task(attempt=2), audit=[audited("rescued", 3.5)])

    assert found == {"S"}


def test_s_a_body_that_never_ends_overlaps_all_that_follow() -> None:
    assert broken([lost_body(1.0), *body(2.0, 4.0, 2, pid=B)], task(attempt=2)) == {"S"}


def test_s_one_attempt_runs_twice() -> None:
    assert "S" in broken([*body(1.0, 2.0), *body(3.0, 4.0, pid=B)])


def test_s_an_older_attempt_starts_after_a_newer_one() -> None:
    assert broken([*body(1.0, 2.0, 2), *body(3.0, 4.0, 1, pid=B)], task(attempt=2)) == {"S"}


def test_s_the_store_does_not_know_the_newest_attempt() -> None:
    assert broken([*body(1.0, 2.0, 1), *body(3.0, 4.0, 2, pid=B)], task(attempt=1)) == {"S"}


def test_s_the_result_of_an_older_attempt_is_believed() -> None:
    lines = [*body(1.0, 2.0, 1), *body(3.0, 4.0, 2, pid=B)]

    assert broken(lines, task(attempt=2, result="1")) == {"S"}


def test_s_a_completed_task_whose_body_never_ended_well() -> None:
    assert broken(body(1.0, 2.0, how="ValueError")) == {"S"}


class TestZombies:
    """A body that goes on after its process was frozen for a lease."""

    def lines(self, frozen_until: float) -> list[Line]:
        return [
            *body(1.0, frozen_until + 0.2, 1),
            line(What.STOP, 2.0, task=""),
            line(What.CONT, frozen_until, task=""),
            *body(5.0, 9.0, 2, pid=B, keys=("k",)),
        ]

    def test_may_overlap_the_newer_attempt(self) -> None:
        assert broken(self.lines(8.0), task(attempt=2, ended=9.5)) == set()

    def test_must_not_be_believed(self) -> None:
        assert broken(self.lines(8.0), task(attempt=2, ended=9.5, result="1")) == {"S"}

    def test_are_none_if_they_were_frozen_for_a_moment_only(self) -> None:
        lines = [
            *body(1.0, 6.0, 1),
            line(What.STOP, 2.0, task=""),
            line(What.CONT, 2.5, task=""),
            *body(5.0, 9.0, 2, pid=B),
        ]

        assert broken(lines, task(attempt=2)) == {"S"}


@pytest.mark.parametrize(("most", "found"), [(1, {"M"}), (2, set())])
def test_m_a_key_is_held_by_too_many(most: int, found: set[str]) -> None:
    lines = [*body(1.0, 3.0, keys=("k",)), *body(2.0, 4.0, pid=B, task="u", keys=("k",))]

    assert broken(lines, task(), task("u"), limits={"k": most}) == found


def test_m_one_after_the_other_is_fine() -> None:
    lines = [*body(1.0, 2.0, keys=("k",)), *body(2.0, 4.0, pid=B, task="u", keys=("k",))]

    assert broken(lines, task(), task("u")) == set()


@pytest.mark.parametrize(("most", "found"), [(1, {"C"}), (2, set())])
def test_c_a_lane_runs_too_many(most: int, found: set[str]) -> None:
    lines = [*body(1.0, 3.0, lane="narrow"), *body(2.0, 4.0, pid=B, task="u", lane="narrow")]

    assert broken(lines, task(), task("u"), capacities={"narrow": most}) == found


@pytest.mark.parametrize("later", [None, State.FAILED])
def test_t_a_task_seen_ended_is_seen_otherwise(later: State | None) -> None:
    seen = [Seen(1, "t", State.COMPLETED), Seen(2, "t", later)]

    assert broken(body(0.0, 0.0), seen=seen) == {"T"}


def test_t_a_task_seen_ended_is_otherwise_at_last() -> None:
    assert broken(body(0.1, 0.2), seen=[Seen(NANOS, "t", State.CANCELLED)]) == {"T"}


def test_t_a_body_starts_after_its_task_was_seen_ended() -> None:
    found = broken(body(2.0, 3.0), seen=[Seen(NANOS, "t", State.COMPLETED)])

    assert found == {"T"}


def test_t_a_body_starts_after_its_task_has_ended() -> None:
    assert broken(body(2.0, 3.0), task(ended=1.0)) == {"T"}


@pytest.mark.parametrize("reason", [Reason.RESCUED, Reason.TIMEOUT, Reason.POISON, Reason.LOST])
def test_a_what_the_system_did_is_not_written_down(reason: Reason) -> None:
    failed = task(
        state=State.FAILED, reason=reason, failures=(FailedAttempt(1, reason, EPOCH),), result=None
    )

    assert broken([], failed) == {"A"}
    assert broken([], failed, audit=[audited(reason, 1.0)]) == set()


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.POISON, Reason.LOST])
def test_a_what_was_not_done_is_written_down(reason: Reason) -> None:
    assert broken([], audit=[audited(reason, 1.0)]) == {"A"}


def test_a_nobody_cancelled_a_cancelled_task() -> None:
    cancelled = task(state=State.CANCELLED, reason=Reason.OPERATOR, result=None)

    assert broken([], cancelled) == {"A"}
    assert broken([], cancelled, audit=[audited("cancel", 1.0)]) == set()


@pytest.mark.parametrize(("at", "found"), [(13.9, set()), (14.5, {"P"})])
def test_p_a_lost_task_is_taken_back_too_late(at: float, found: set[str]) -> None:
    run = a_good_run(
        lines=[
            lost_body(1.0),
            line(What.KILL, 2.0, task=""),
            *body(20.0, 21.0, 2, pid=B),
        ],
        tasks=[task(attempt=2, ended=22.0, failures=(rescued(at),))],
        audit=[audited("rescued", at)],
        seen=(),
    )

    assert {text[0] for text in violations(Evidence(**run))} == found


def test_p_a_lost_task_is_never_taken_back() -> None:
    stuck = task(state=State.RUNNING, reason=Reason.CLAIMED, ended_at=None, result=None)

    assert broken([lost_body(1.0), line(What.KILL, 2.0, task="")], stuck) == {"P"}


def test_p_tasks_run_under_a_dead_node() -> None:
    dead = [line(What.KILL, 2.0, task="")]

    assert broken(dead, nodes=[NodeSeen(13 * NANOS, A, 3)]) == set()
    assert broken(dead, nodes=[NodeSeen(15 * NANOS, A, 3)]) == {"P"}


def test_2_a_task_is_charged_beyond_its_budget() -> None:
    assert broken([], task(charged=5, max_charged=4)) == {"2"}


def test_d_a_task_starts_before_one_it_depends_on_has_ended() -> None:
    lines = [*body(1.0, 3.0), *body(2.0, 4.0, pid=B, task="u")]

    assert broken(lines, task(ended=3.0), task("u", depends_on=("t",))) == {"D"}


def test_d_a_task_runs_though_one_it_depends_on_has_failed() -> None:
    needed = task(state=State.FAILED, reason=Reason.ERROR, result=None, ended=1.0)
    lines = body(2.0, 3.0, pid=B, task="u")

    assert broken(lines, needed, task("u", depends_on=("t",))) == {"D"}
    anyway = task("u", depends_on=("t",), on_failure=OnFailure.RUN)
    assert broken(lines, needed, anyway) == set()


def test_d_a_task_is_given_up_without_need() -> None:
    given_up = task(
        "u", depends_on=("t",), state=State.CANCELLED, reason=Reason.DEPENDENCY, result=None
    )

    assert broken([], task(), given_up) == {"D"}
    needed = task(state=State.CANCELLED, reason=Reason.BODY, result=None)
    assert broken([], needed, given_up) == set()


def test_d_a_task_has_run_and_still_waits() -> None:
    lines = [*body(1.0, 2.0), *body(4.0, 5.0, pid=B, task="u")]

    assert broken(lines, task(ended=3.0), task("u", depends_on=("t",), waits_for=1)) == {"D"}


def test_d_what_a_task_depends_on_is_gone() -> None:
    assert broken([], task(), task("u", depends_on=("v",))) == {"D"}
