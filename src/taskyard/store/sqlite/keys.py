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
from collections.abc import Iterable

from taskyard.domain.lane import Key, KeyRule, KeyRules
from taskyard.store.sqlite.tx import Tx, numbers, to_json


def rules(tx: Tx) -> KeyRules:
    return KeyRules(rule_list(tx))


def rule_list(tx: Tx) -> list[KeyRule]:
    rows = tx.rows(list[tuple[str, int]], tx.sql("keys")["rules"])
    return [KeyRule(pattern, limit) for pattern, limit in rows]


def room(tx: Tx, keys: Iterable[str]) -> dict[str, int]:
    """How many more may hold each of these keys; counted over what runs."""
    names = sorted(set(keys))
    if not names:
        return {}
    limits = rules(tx)
    held = tx.rows(dict[str, int], tx.sql("keys")["held"], to_json(names))
    return {name: limits.limit(name) - held.get(name, 0) for name in names}


def wake(tx: Tx, freed: Counter[str]) -> None:
    """Let the first `freed[key]` waiters of each lane and route be looked at again."""
    sql = tx.sql("keys")
    turns = {key: min(freed[key], free) for key, free in room(tx, freed).items() if free > 0}
    if not turns:
        return
    heads = tx.rows(list[int], sql["heads"], to_json(list(turns)))
    if not heads:
        return
    tx.run(sql["unpark"], numbers(heads))
    for key, turn in turns.items():
        if turn > 1:
            _wake_more(tx, key, turn - 1)


def _wake_more(tx: Tx, key: str, turns: int) -> None:
    sql = tx.sql("keys")
    for lane, route in tx.rows(list[tuple[int, int]], sql["streams"], key):
        tx.run(sql["unpark"], tx.value(sql["first"], key, lane, route, turns))


def waited(tx: Tx, keys: Iterable[str]) -> set[str]:
    """Those of these keys that someone is parked on."""
    return set(tx.rows(list[str], tx.sql("keys")["waited"], to_json(sorted(set(keys)))))


def passed_over(tx: Tx, key_sets: Iterable[tuple[str, ...]]) -> None:
    """Ready carriers of these keys have gone without taking room: others may take their turn."""
    gone = Counter(key for keys in key_sets for key in keys)
    if gone:
        wake(tx, gone)


def set_rule(tx: Tx, pattern: str, limit: int | None, actor: str) -> None:
    before = rules(tx)
    if limit is None:
        tx.run(tx.sql("keys")["drop_rule"], pattern)
    else:
        KeyRule(pattern, limit).check()
        tx.run(tx.sql("keys")["set_rule"], pattern, limit)
    after = rules(tx)
    waited = tx.rows(list[str], tx.sql("keys")["patterns_waited"])
    wake(
        tx,
        Counter(
            {
                key: after.limit(key) - before.limit(key)
                for key in waited
                if after.limit(key) > before.limit(key)
            }
        ),
    )
    detail = "removed" if limit is None else f"limit {limit}"
    tx.audit(actor, [("set_key_rule", f"key:{pattern}", detail)])


def list_keys(tx: Tx, limit: int) -> list[Key]:
    limits = rules(tx)
    waited = tx.rows(list[str], tx.sql("keys")["patterns_waited"])
    found = tx.rows(list[Key], tx.sql("keys")["list"], to_json(waited), limit)
    return [Key(key.name, limits.limit(key.name), key.holders, key.waiting) for key in found]
