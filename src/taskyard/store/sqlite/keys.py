"""Keys: who holds them, who waits for them, and how room that came free finds a waiter.

A queued task that meets a full key is *parked* on it and leaves the ready index, so a backlog
behind one key is looked at once. The rule that keeps parking honest:

    while a key has room for f more, in every lane and route at least f ready tasks that carry
    the key come before every task parked on it.

Room grows when a holder ends or a limit is raised; a ready carrier leaves without taking room
when it is cancelled, expires, is moved back, or parks on another key. `wake` after each of
these restores the rule. Waking one too many is harmless: it parks again when it is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from taskyard.domain.lane import DEFAULT_KEY_LIMIT, Key, KeyRule, KeyRules
from taskyard.domain.rate import Rate
from taskyard.store.sqlite import rates
from taskyard.store.sqlite.tx import Tx, numbers, to_json


class _Rule(KeyRule, array_like=True, frozen=True):
    pass


class Rooms(msgspec.Struct):
    """How many more may hold each of some keys, and the rates of those that have one."""

    free: dict[str, int]
    rates: dict[str, Rate]


def rules(tx: Tx) -> KeyRules:
    return KeyRules(rule_list(tx))


def rule_list(tx: Tx) -> list[KeyRule]:
    rows = tx.rows(list[_Rule], tx.sql("keys")["rules"])
    return [KeyRule(rule.pattern, rule.limit, rule.rate) for rule in rows]


def rooms(tx: Tx, keys: Iterable[str]) -> Rooms:
    """Counted over what runs; a key whose rate has no token has no room."""
    names = list(dict.fromkeys(keys))
    if not names:
        return Rooms({}, {})
    ruled = rules(tx).of(names)
    free = _below_limits(tx, ruled, names)
    rated = {name: rule.rate for name, rule in ruled.items() if rule.rate is not None}
    if rated:
        for name, tokens in rates.tokens(tx, rated).items():
            free[name] = min(free[name], tokens)
    return Rooms(free, rated)


def _below_limits(tx: Tx, ruled: Mapping[str, KeyRule], names: Sequence[str]) -> dict[str, int]:
    free = dict.fromkeys(names, DEFAULT_KEY_LIMIT)
    free.update((name, rule.limit) for name, rule in ruled.items())
    held = tx.rows(dict[str, int], tx.sql("keys")["held"], to_json(names))
    for name, holders in held.items():
        free[name] -= holders
    return free


def room(tx: Tx, keys: Iterable[str]) -> dict[str, int]:
    return rooms(tx, keys).free


def held_up(tx: Tx, keys: Iterable[str]) -> set[str]:
    """Those of these keys that as many hold as may, whatever their rate."""
    names = list(dict.fromkeys(keys))
    if not names:
        return set()
    free = _below_limits(tx, rules(tx).of(names), names)
    return {name for name in names if free[name] <= 0}


def full(tx: Tx, keys: Iterable[str]) -> set[str]:
    """Those of these keys that nobody more may hold now."""
    return {key for key, free in room(tx, keys).items() if free <= 0}


def wake(tx: Tx, freed: Counter[str], each: int = 1) -> bool:
    """Let the first `freed[key]` waiters of each lane and route be looked at again.

    Or `each` of them for every one. Says whether there was one.
    """
    sql = tx.sql("keys")
    wanted = waited(tx, freed)
    if not wanted:
        return False
    free = room(tx, wanted)
    turns = {key: min(freed[key], free[key]) * each for key in wanted if free[key] > 0}
    if not turns:
        return False
    heads = tx.rows(list[int], sql["heads"], to_json(list(turns)))
    if not heads:
        return False
    tx.run(sql["unpark"], numbers(heads))
    for key, turn in turns.items():
        if turn > 1:
            _wake_more(tx, key, turn - 1)
    return True


def _wake_more(tx: Tx, key: str, turns: int) -> None:
    sql = tx.sql("keys")
    for lane, route in tx.rows(list[tuple[int, int]], sql["streams"], key):
        tx.run(sql["unpark"], tx.value(sql["first"], key, lane, route, turns))


def waited(tx: Tx, keys: Iterable[str]) -> set[str]:
    """Those of these keys that someone is parked on."""
    return set(tx.rows(list[str], tx.sql("keys")["waited"], to_json(list(set(keys)))))


def all_waited(tx: Tx) -> list[str]:
    """The keys that someone is parked on."""
    return tx.rows(list[str], tx.sql("keys")["all_waited"])


def passed_over(tx: Tx, key_sets: Iterable[tuple[str, ...]], *, each: int = 1) -> bool:
    """Ready carriers of these keys have gone without taking room: others may take their turn."""
    gone = Counter(key for keys in key_sets for key in keys)
    return bool(gone) and wake(tx, gone, each)


def set_rule(tx: Tx, pattern: str, limit: int | None, rate: Rate | None, actor: str) -> None:
    before = rules(tx)
    if limit is None:
        tx.run(tx.sql("keys")["drop_rule"], pattern)
    else:
        KeyRule(pattern, limit, rate).check()
        kept = None if rate is None else to_json(rate)
        tx.run(tx.sql("keys")["set_rule"], pattern, limit, kept)
    after = rules(tx)
    changed = [key for key in all_waited(tx) if before.rule(key) != after.rule(key)]
    wake(tx, Counter({key: after.limit(key) for key in changed}))
    _set_rates(tx, before, after)
    limited = f"limit {limit}" if rate is None else f"limit {limit}, {rate.said}"
    detail = "removed" if limit is None else limited
    tx.audit(actor, [("set_key_rule", f"key:{pattern}", detail)])


def _set_rates(tx: Tx, before: KeyRules, after: KeyRules) -> None:
    """What was taken of these keys stays taken; the next token comes at another time."""
    changed = [key for key in rates.all_keys(tx) if before.rate(key) != after.rate(key)]
    rated = {key: rate for key in changed if (rate := after.rate(key)) is not None}
    rates.tell_nobody(tx, [key for key in changed if key not in rated])
    rates.tell_next(tx, rated, waited(tx, rated))


def list_keys(tx: Tx, limit: int) -> list[Key]:
    limits = rules(tx)
    found = tx.rows(list[Key], tx.sql("keys")["list"], to_json(all_waited(tx)), limit)
    return [Key(key.name, limits.limit(key.name), key.holders, key.waiting) for key in found]
