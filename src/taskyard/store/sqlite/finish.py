"""Ends attempts: the one place where room is given back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from taskyard.domain.clock import micros
from taskyard.domain.node import Hold
from taskyard.domain.outcome import Finished, Stale, Verdict, heed
from taskyard.domain.state import TERMINAL, Reason, State, require
from taskyard.domain.task import Progress
from taskyard.store.sqlite import dependencies, keys, order
from taskyard.store.sqlite.tx import AnotherWay, Tx, numbers, span, to_json
from taskyard.store.sqlite.unreadable import UNREADABLE

MAX_FENCES = 8  # attempts and leases; with more, one statement for all takes less time
RESULTS_AT_ONCE = 1_000_000  # characters; a thousand of the largest would not fit into one text

# What the system did by itself is written down; the happy path is not.
_AUDITED = frozenset({Reason.TIMEOUT, Reason.LOST, Reason.POISON, Reason.RESCUED})


class _Accepted(msgspec.Struct, array_like=True):
    no: int
    attempt: int
    lease: int
    keys: tuple[str, ...] | None
    asked: str | None
    awaited: int | None
    dedup_held: int | None

    @property
    def is_particular(self) -> bool:
        """Whether its end is more than that it has completed: see complete_at_once."""
        return not (self.keys is None and self.awaited is None and self.dedup_held is None)


def finish(tx: Tx, verdicts: Sequence[Verdict]) -> list[Finished | Stale]:
    """A verdict counts only if its attempt is the accepted one; all others change nothing."""
    if not verdicts:
        return []
    for verdict in {(v.state, v.reason): v for v in verdicts}.values():
        require(verdict.id, State.RUNNING, verdict.state, verdict.reason)
    if not tx.names.particular and _at_once(tx, verdicts):
        _save_results(tx, verdicts)
        return [Finished(verdict.no, verdict.state) for verdict in verdicts]
    try:
        answers, accepted, rows = _judge(tx, verdicts)
    except UNREADABLE:
        dependencies.set_aside(tx, [verdict.no for verdict in verdicts])
        answers, accepted, rows = _judge(tx, verdicts)
    _settle(tx, accepted)
    held = list({(key, row.no) for row in rows for key in row.keys or ()})
    tx.names.particular = any(row.is_particular for row in rows)
    give_back(tx, held)
    kept = {row.no for row in rows if row.dedup_held}
    if kept:
        free_dedup(tx, [v.no for v in accepted if v.no in kept and v.state in TERMINAL])
    awaited = {row.no for row in rows if row.awaited}
    if awaited:
        ends = [(v.id, v.state) for v in accepted if v.no in awaited and v.state in TERMINAL]
        dependencies.ended(tx, ends)
    return answers


def _at_once(tx: Tx, verdicts: Sequence[Verdict]) -> bool:
    """Whether all of these were accepted as completed, and that was all there was to do.

    Mostly they are. To look at each of them before would take as long as to end them.
    """
    fences = {(v.attempt, v.lease, v.state) for v in verdicts}
    if len(fences) > 1:
        return False
    [(attempt, lease, state)] = fences
    nos = {v.no for v in verdicts}
    if state is not State.COMPLETED or len(nos) < len(verdicts):
        return False
    sql, neighbours = tx.sql("finish"), span(nos)
    if neighbours is None:
        changed = tx.run(sql["complete_at_once"], numbers(nos), tx.now, attempt, lease)
    else:
        changed = tx.run(sql["complete_span"], *neighbours, tx.now, attempt, lease)
    if 0 < changed < len(nos):
        tx.names.particular = True
        raise AnotherWay
    return changed > 0


_Judged = tuple[list[Finished | Stale], list[Verdict], list[_Accepted]]


def _judge(tx: Tx, verdicts: Sequence[Verdict]) -> _Judged:
    """The answers, the verdicts that hold, and the tasks of those of which there is more to say."""
    rows = _if_all(tx, verdicts)
    if rows is None:
        return _judge_each(tx, verdicts)
    asked = {row.no: row.asked for row in rows if row.asked is not None}
    accepted = [heed(v, asked.get(v.no)) for v in verdicts] if asked else list(verdicts)
    return [Finished(v.no, v.state) for v in accepted], accepted, rows


def _if_all(tx: Tx, verdicts: Sequence[Verdict]) -> list[_Accepted] | None:
    """What there is to say of their tasks if all of these are accepted: mostly all are, and of
    most tasks there is nothing to say."""
    fences: dict[tuple[int, int], set[int]] = {}
    for verdict in verdicts:
        fences.setdefault((verdict.attempt, verdict.lease), set()).add(verdict.no)
    if len(fences) > MAX_FENCES or len(set().union(*fences.values())) < len(verdicts):
        return None
    rows: list[_Accepted] = []
    statement = tx.sql("finish")["all_accepted"]
    for (attempt, lease), nos in fences.items():
        count, particular = tx.rows(
            tuple[int, list[_Accepted]], statement, numbers(nos), attempt, lease
        )
        if count < len(nos):
            return None
        rows += particular
    return rows


def _judge_each(tx: Tx, verdicts: Sequence[Verdict]) -> _Judged:
    asked = to_json([(verdict.no, verdict.attempt, verdict.lease) for verdict in verdicts])
    rows = tx.rows(list[_Accepted], tx.sql("finish")["accepted"], asked)
    live = {(row.no, row.attempt): row for row in rows}
    answers: list[Finished | Stale] = []
    accepted: list[Verdict] = []
    for verdict in verdicts:
        row = live.get((verdict.no, verdict.attempt))
        if row is not None and verdict.lease in (0, row.lease):
            del live[row.no, row.attempt]
            final = heed(verdict, row.asked)
            accepted.append(final)
            answers.append(Finished(final.no, final.state))
        else:
            answers.append(Stale(verdict.no, verdict.attempt))
    return answers, accepted, rows


def _settle(tx: Tx, verdicts: Sequence[Verdict]) -> None:
    sql = tx.sql("finish")
    failures = [
        (v.no, v.reason, v.error.type, v.error.message, v.error.stack)
        for v in verdicts
        if v.error is not None
    ]
    if failures:
        tx.run(sql["log"], to_json(failures), tx.now)
    completed = [v.no for v in verdicts if v.state is State.COMPLETED]
    if completed:
        tx.run(sql["complete"], numbers(completed), tx.now)
    others = [v for v in verdicts if v.state is not State.COMPLETED]
    if others:
        tx.run(sql["settle"], to_json(_rows(tx, others)))
        tx.audit("system", [(v.reason, f"task:{v.id}", v.state) for v in others if _noted(v)])
    _save_results(tx, verdicts)
    at_once = [
        v.no for v in others if v.state is State.PENDING and v.delay is not None and v.delay <= 0
    ]
    if at_once:
        dependencies.set_aside(tx, list(order.queue(tx, at_once, Reason.DUE)))


def _save_results(tx: Tx, verdicts: Sequence[Verdict]) -> None:
    results: dict[int, str] = {}
    text = 0
    for verdict in verdicts:
        if verdict.result is None:
            continue
        results[verdict.no] = verdict.result
        text += len(verdict.result)
        if text > RESULTS_AT_ONCE:
            tx.run(tx.sql("finish")["results"], to_json(results))
            results, text = {}, 0
    if results:
        tx.run(tx.sql("finish")["results"], to_json(results))


def _noted(verdict: Verdict) -> bool:
    return verdict.reason in _AUDITED


def _rows(tx: Tx, verdicts: Sequence[Verdict]) -> list[tuple[object, ...]]:
    """One row a verdict, in the order of settle in sql/finish.sql."""
    moving = sum(v.state not in TERMINAL and not v.keeps_place for v in verdicts)
    seq = tx.value(tx.sql("enqueue")["numbers"], moving) - moving if moving else 0
    rows: list[tuple[object, ...]] = []
    for v in verdicts:
        moves = v.state not in TERMINAL and not v.keeps_place
        seq += moves
        rows.append(
            (
                v.no,
                v.state,
                v.reason,
                v.charge,
                v.losses,
                None if v.delay is None else tx.now + micros(v.delay),
                seq if moves else None,
                tx.now if v.state in TERMINAL else None,
            )
        )
    return rows


def free_dedup(tx: Tx, nos: Sequence[int]) -> None:
    """Few tasks have a dedup key: the others pay nothing for it."""
    if nos:
        tx.run(tx.sql("claim")["free_dedup"], numbers(nos))


def give_back(tx: Tx, held: Sequence[tuple[str, int]]) -> None:
    """Free these keys and wake whoever waited for them."""
    if held:
        tx.run(tx.sql("finish")["give_back"], to_json(held))
        keys.wake(tx, Counter(key for key, _ in held))


def report(tx: Tx, hold: Hold, progress: Progress) -> bool:
    said = to_json(progress)
    return tx.run(tx.sql("finish")["report"], hold.no, hold.attempt, hold.lease, said) > 0


def mark_started(tx: Tx, holds: Sequence[Hold]) -> None:
    fences = to_json([(hold.no, hold.attempt, hold.lease) for hold in holds])
    tx.run(tx.sql("finish")["mark_started"], fences, tx.now)
