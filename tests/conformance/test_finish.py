from __future__ import annotations

import pytest

from taskyard.domain.clock import SECOND
from taskyard.domain.errors import IllegalTransition
from taskyard.domain.outcome import Failed, Finished, Stale, Stopped, Verdict
from taskyard.domain.retry import Retry
from taskyard.domain.state import Reason, State
from taskyard.domain.task import Progress, TaskError
from taskyard.store.port import Cancellation, ClaimRequest, Store
from tests.conformance.places import StoreTime
from tests.conformance.verbs import (
    BROKEN,
    change,
    complete,
    enqueued,
    failed,
    finish,
    hold,
    ids,
    node,
    released,
    running,
    seen,
    snoozed,
    state_of,
    stopped,
    succeeded,
    verdict,
)


@pytest.mark.spec("engine-6", "engine-10")
async def test_a_body_that_succeeded_completes_its_task(store: Store) -> None:
    task = await running(store, await node(store))

    assert await finish(store, succeeded(task, '{"answer":42}')) == [
        Finished(task.no, State.COMPLETED)
    ]

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason) == (State.COMPLETED, Reason.FINISHED)
    assert (kept.result, kept.error, kept.failures) == ('{"answer":42}', None, ())
    assert kept.charged == 1
    assert kept.started_at is not None
    assert kept.ended_at is not None
    assert kept.started_at <= kept.ended_at


@pytest.mark.spec("engine-6")
async def test_a_task_may_complete_without_a_result(store: Store) -> None:
    task = await running(store, await node(store))
    await finish(store, succeeded(task))

    assert (await seen(store, task.id)).result is None


@pytest.mark.spec("engine-6", "engine-7")
async def test_a_body_that_failed_is_tried_again_after_its_delay(
    store: Store, time: StoreTime
) -> None:
    worker = await node(store, lease_seconds=1000)
    task = await running(store, worker)
    before = await seen(store, task.id)

    assert await finish(store, failed(task, delay=60)) == [Finished(task.no, State.PENDING)]

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason, kept.charged) == (State.PENDING, Reason.ERROR, 1)
    assert kept.seq > before.seq
    assert 59 * SECOND < kept.run_at - await store.now() <= 60 * SECOND
    assert kept.started_at is kept.ended_at is None
    assert (kept.error, [f.error for f in kept.failures]) == (BROKEN, [BROKEN])
    assert await worker.claim(10) == []
    await time.advance(61)
    await store.promote()
    [again] = await worker.claim(10)
    assert (again.id, again.attempt, again.charged) == (task.id, 2, 1)


@pytest.mark.spec("engine-5", "engine-6")
async def test_a_retry_without_delay_is_queued_in_the_same_step(store: Store) -> None:
    task = await running(store, await node(store))
    await finish(store, failed(task, delay=0))

    assert (await seen(store, task.id)).state is State.QUEUED


@pytest.mark.spec("engine-5", "engine-6")
async def test_a_retry_without_delay_does_not_wait_behind_others_that_are_due(
    store: Store, time: StoreTime
) -> None:
    worker = await node(store)
    await enqueued(store, delay=1)
    task = await running(store, worker)
    await time.advance(2)

    await finish(store, failed(task, delay=0))

    assert (await seen(store, task.id)).state is State.QUEUED


@pytest.mark.spec("engine-6")
async def test_a_body_that_must_not_be_tried_again_fails_its_task(store: Store) -> None:
    task = await running(store, await node(store))
    fatal = Failed(TaskError("Fatal", "no such page"), reason=Reason.FATAL, retry=False)

    assert await finish(store, verdict(task, fatal)) == [Finished(task.no, State.FAILED)]

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason) == (State.FAILED, Reason.FATAL)
    assert kept.error == TaskError("Fatal", "no such page")
    assert kept.ended_at is not None


@pytest.mark.spec("engine-2", "lifecycle-8")
async def test_retries_3_means_at_most_four_charged_runs(store: Store) -> None:
    worker = await node(store)
    policy = Retry.fixed(3, delay=0)
    task_id = await enqueued(store, max_charged=policy.max_charged)
    states = []
    while tasks := await worker.claim(1):
        await finish(store, verdict(tasks[0], Failed(BROKEN), policy))
        states.append((await seen(store, task_id)).state)

    assert states == [State.QUEUED] * 3 + [State.FAILED]
    kept = await seen(store, task_id)
    assert (kept.reason, kept.attempt, kept.charged) == (Reason.ERROR, 4, 4)
    assert [f.attempt for f in kept.failures] == [1, 2, 3, 4]


@pytest.mark.spec("engine-2")
async def test_releases_and_snoozes_use_up_no_retries(store: Store) -> None:
    worker = await node(store)
    await enqueued(store, max_charged=2)
    for _ in range(3):
        await finish(store, released(await worker.claim_one()))
        await finish(store, snoozed(await worker.claim_one(), 0))
    await finish(store, failed(await worker.claim_one()))
    last = await worker.claim_one()

    assert (last.attempt, last.charged) == (8, 1)
    assert await finish(store, failed(last)) == [Finished(last.no, State.FAILED)]


@pytest.mark.spec("engine-6", "engine-7", "engine-2")
async def test_a_release_keeps_place_and_is_not_charged(store: Store) -> None:
    task = await running(store, await node(store))
    before = await seen(store, task.id)

    assert await finish(store, released(task)) == [Finished(task.no, State.QUEUED)]

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason) == (State.QUEUED, Reason.RELEASED)
    assert (kept.seq, kept.charged, kept.attempt) == (before.seq, 0, 1)
    assert kept.failures == ()


@pytest.mark.spec("engine-6", "engine-7", "engine-2")
async def test_a_snooze_waits_and_is_not_charged(store: Store, time: StoreTime) -> None:
    worker = await node(store)
    task = await running(store, worker)
    before = await seen(store, task.id)

    assert await finish(store, snoozed(task, 20)) == [Finished(task.no, State.PENDING)]

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason, kept.charged) == (State.PENDING, Reason.SNOOZED, 0)
    assert kept.seq > before.seq
    await time.advance(21)
    await store.promote()
    assert ids(await worker.claim(10)) == [task.id]


@pytest.mark.spec("engine-6")
async def test_a_body_that_was_stopped_cancels_its_task(store: Store) -> None:
    task = await running(store, await node(store))
    assert await store.cancel(task.id, actor="ann") is Cancellation.ASKED

    assert await finish(store, stopped(task)) == [Finished(task.no, State.CANCELLED)]

    kept = await seen(store, task.id)
    assert (kept.state, kept.reason, kept.asked) == (State.CANCELLED, Reason.OPERATOR, None)
    assert kept.charged == 0


@pytest.mark.spec("engine-6")
async def test_a_body_may_cancel_its_own_task(store: Store) -> None:
    task = await running(store, await node(store))
    await finish(store, verdict(task, Stopped(Reason.BODY)))

    assert await state_of(store, task.id) == (State.CANCELLED, Reason.BODY)


@pytest.mark.spec("engine-6")
async def test_a_body_that_succeeds_although_asked_to_stop_has_completed(store: Store) -> None:
    task = await running(store, await node(store))
    await store.cancel(task.id, actor="ann")

    assert await finish(store, succeeded(task)) == [Finished(task.no, State.COMPLETED)]

    assert (await seen(store, task.id)).asked is None


@pytest.mark.spec("engine-6", "engine-8")
@pytest.mark.parametrize("ending", ["retry", "release", "snooze"])
async def test_a_task_asked_to_cancel_does_not_come_back(store: Store, ending: str) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await store.cancel(task.id, actor="ann")
    verdicts = {"retry": failed(task), "release": released(task), "snooze": snoozed(task, 0)}

    assert await finish(store, verdicts[ending]) == [Finished(task.no, State.CANCELLED)]

    assert await state_of(store, task.id) == (State.CANCELLED, Reason.OPERATOR)
    assert await worker.claim(10) == []


@pytest.mark.spec("engine-6", "lifecycle-17")
async def test_the_log_of_failed_attempts_tells_what_happened(store: Store) -> None:
    worker = await node(store, "node-a")
    task = await running(store, worker)
    await finish(store, failed(task))
    again = await worker.claim_one()
    late = Failed(TaskError("TimeoutError", "9 s"), reason=Reason.TIMEOUT)
    await finish(store, verdict(again, late))

    first, second = (await seen(store, task.id)).failures

    assert (first.attempt, first.reason, first.error) == (1, Reason.ERROR, BROKEN)
    assert (second.attempt, second.reason) == (2, Reason.TIMEOUT)
    assert second.error == TaskError("TimeoutError", "9 s")
    for line in (first, second):
        assert line.node == "node-a"
        assert line.started_at is not None
        assert line.started_at <= line.at
    assert first.at <= second.at


@pytest.mark.spec("engine-6", "lifecycle-17")
async def test_a_task_that_completes_at_last_keeps_its_log_but_shows_no_error(
    store: Store,
) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await finish(store, failed(task))
    await complete(store, await worker.claim_one())

    kept = await seen(store, task.id)

    assert (kept.error, len(kept.failures), kept.charged) == (None, 1, 2)


@pytest.mark.spec("engine-31")
async def test_one_call_ends_many_attempts_each_in_its_own_way(store: Store) -> None:
    worker = await node(store)
    for _ in range(5):
        await enqueued(store)
    a, b, c, d, e = await worker.claim(5)

    answers = await finish(
        store, succeeded(a), failed(b, delay=9), released(c), stopped(d), failed(e, retry=False)
    )

    wanted = [State.COMPLETED, State.PENDING, State.QUEUED, State.CANCELLED, State.FAILED]
    assert answers == [
        Finished(t.no, state) for t, state in zip((a, b, c, d, e), wanted, strict=True)
    ]
    assert [(await seen(store, t.id)).state for t in (a, b, c, d, e)] == wanted


@pytest.mark.spec("engine-7")
async def test_retries_of_one_call_keep_their_order_among_each_other(store: Store) -> None:
    worker = await node(store)
    waiting = [await enqueued(store) for _ in range(3)]
    tasks = await worker.claim(3)
    await finish(store, *(failed(task) for task in tasks))

    assert await worker.claim_ids(3) == waiting


@pytest.mark.spec("engine-19", "engine-31")
async def test_of_two_verdicts_for_one_attempt_the_first_counts(store: Store) -> None:
    task = await running(store, await node(store))

    answers = await finish(store, succeeded(task, '"yes"'), failed(task))

    assert answers == [Finished(task.no, State.COMPLETED), Stale(task.no, task.attempt)]
    kept = await seen(store, task.id)
    assert (kept.state, kept.result, kept.failures) == (State.COMPLETED, '"yes"', ())


@pytest.mark.spec("engine-31")
async def test_nothing_to_finish_is_no_mistake(store: Store) -> None:
    assert await store.finish([]) == []


@pytest.mark.spec("engine-31")
async def test_a_turn_finishes_then_claims_into_the_freed_slot(store: Store) -> None:
    worker = await node(store, slots=1)
    first = await running(store, worker, keys=("k",))
    second = await enqueued(store, keys=("k",))

    turn = await store.turn([succeeded(first)], ClaimRequest(lease=worker.lease, number=2, room=1))

    assert turn.finished == [Finished(first.no, State.COMPLETED)]
    assert ids(turn.claim.tasks) == [second]


@pytest.mark.spec("engine-31")
async def test_a_turn_tells_which_verdicts_were_stale(store: Store) -> None:
    worker = await node(store)
    task = await running(store, worker)
    await complete(store, task)

    turn = await store.turn([failed(task)], ClaimRequest(lease=worker.lease, number=2, room=1))

    assert turn.finished == [Stale(task.no, task.attempt)]
    assert turn.claim.tasks == []


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (State.RUNNING, Reason.CLAIMED),
        (State.COMPLETED, Reason.ERROR),
        (State.PENDING, Reason.RELEASED),
        (State.QUEUED, Reason.ERROR),
        (State.FAILED, Reason.FINISHED),
        (State.CANCELLED, Reason.EXPIRED),
    ],
)
async def test_a_verdict_the_table_does_not_allow_is_refused(
    store: Store, state: State, reason: Reason
) -> None:
    worker = await node(store)
    for _ in range(2):
        await enqueued(store)
    good, bad = await worker.claim(2)
    wrong = Verdict(no=bad.no, id=bad.id, attempt=1, state=state, reason=reason)

    with pytest.raises(IllegalTransition, match=f"running and cannot become {state}"):
        await finish(store, succeeded(good), wrong)

    assert (await store.counts())[State.RUNNING] == 2


@pytest.mark.spec("engine-1")
async def test_progress_is_kept_and_replaced(store: Store) -> None:
    task = await running(store, await node(store))

    assert await store.report(hold(task), Progress(1, 10, "first"))
    assert await store.report(hold(task), Progress(2, None))

    assert (await seen(store, task.id)).progress == Progress(2, None)


@pytest.mark.spec("engine-6")
async def test_errors_survive_whatever_they_contain(store: Store) -> None:
    task = await running(store, await node(store))
    error = TaskError("Odd", 'it\'s "quoted"\n☃ 🚂 {braces} %s \x00', "lone \udcff surrogate")
    await finish(store, verdict(task, Failed(error, retry=False)))

    assert (await seen(store, task.id)).error == error


@pytest.mark.spec("engine-31", "engine-8")
@pytest.mark.parametrize("capacity", [None, 1])
async def test_a_turn_claims_first_what_its_own_verdicts_have_let_go(
    store: Store, capacity: int | None
) -> None:
    worker = await node(store)
    await change(store, "lane", capacity=capacity)
    parent = await running(store, worker, lane="lane")
    freed = await enqueued(store, lane="lane", priority=1, depends_on=(parent.id,))
    for _ in range(3):
        await enqueued(store, lane="lane", priority=5)

    request = ClaimRequest(lease=worker.lease, number=worker.number + 1, room=1)
    turn = await store.turn([succeeded(parent)], request)

    assert [task.id for task in turn.claim.tasks] == [freed]
