"""Every fence of the SQLite store, taken out one at a time, and the tests that must notice."""

from __future__ import annotations

import msgspec

CONFORMANCE = "tests/conformance/test_{}.py"
REBOOT = "tests/crash/test_reboot.py"
HERE = "tests/crash/test_fences.py"
SHORTCUTS = "tests/store/test_sqlite_shortcuts.py"


class Mutant(msgspec.Struct, frozen=True):
    name: str
    file: str  # below src/taskyard
    text: str  # occurs once in the file
    instead: str
    tests: tuple[str, ...]
    only: str = ""  # of these tests, those whose names fit: saves time


def _sql(verb: str) -> str:
    return f"store/sqlite/sql/{verb}.sql"


def _tests(*names: str) -> tuple[str, ...]:
    return tuple(CONFORMANCE.format(name) for name in names)


FENCES = (
    Mutant(
        "finish without the attempt",
        _sql("finish"),
        "WHERE t.state = 'running' AND t.attempt = v.value ->> 1",
        "WHERE t.state = 'running' AND v.value ->> 1",
        _tests("fencing"),
        "verdict",
    ),
    Mutant(
        "finish without the state",
        _sql("finish"),
        "WHERE t.state = 'running' AND t.attempt = v.value ->> 1",
        "WHERE t.attempt = v.value ->> 1",
        _tests("fencing"),
        "verdict",
    ),
    Mutant(
        "finish of many without the attempt",
        _sql("finish"),
        "WHERE t.state = 'running' AND t.attempt = ?2",
        "WHERE t.state = 'running' AND ?2",
        _tests("fencing"),
        "verdict",
    ),
    Mutant(
        "finish of many without the state",
        _sql("finish"),
        "WHERE t.state = 'running' AND t.attempt = ?2",
        "WHERE t.attempt = ?2",
        _tests("fencing"),
        "verdict",
    ),
    Mutant(
        "finish of many without the lease",
        _sql("finish"),
        "AND t.attempt = ?2 AND ?3 IN (0, t.lease)",
        "AND t.attempt = ?2 AND ?3 >= 0",
        _tests("lease_fence"),
        "verdict",
    ),
    Mutant(
        "finish at once without the attempt",
        _sql("finish"),
        """state = 'running' AND attempt = ?3 AND ?4 IN (0, lease)""",
        """state = 'running' AND ?3 AND ?4 IN (0, lease)""",
        (SHORTCUTS,),
        "fenced",
    ),
    Mutant(
        "finish at once without the state",
        _sql("finish"),
        """state = 'running' AND attempt = ?3 AND ?4 IN (0, lease)""",
        """attempt = ?3 AND ?4 IN (0, lease)""",
        (SHORTCUTS,),
        "fenced",
    ),
    Mutant(
        "finish at once without the lease",
        _sql("finish"),
        """state = 'running' AND attempt = ?3 AND ?4 IN (0, lease)""",
        """state = 'running' AND attempt = ?3 AND ?4 >= 0""",
        (SHORTCUTS,),
        "fenced",
    ),
    Mutant(
        "finish at once of those that hold keys",
        _sql("finish"),
        """AND attempt = ?3 AND ?4 IN (0, lease)
   AND coalesce(keys, awaited, dedup_held) IS NULL""",
        """AND attempt = ?3 AND ?4 IN (0, lease)
   AND coalesce(awaited, dedup_held) IS NULL""",
        (SHORTCUTS,),
        "finishing",
    ),
    Mutant(
        "finish at once of those that others wait for",
        _sql("finish"),
        """AND attempt = ?3 AND ?4 IN (0, lease)
   AND coalesce(keys, awaited, dedup_held) IS NULL""",
        """AND attempt = ?3 AND ?4 IN (0, lease)
   AND coalesce(keys, dedup_held) IS NULL""",
        (SHORTCUTS,),
        "finishing",
    ),
    Mutant(
        "finish at once of those that keep a dedup key",
        _sql("finish"),
        """AND attempt = ?3 AND ?4 IN (0, lease)
   AND coalesce(keys, awaited, dedup_held) IS NULL""",
        """AND attempt = ?3 AND ?4 IN (0, lease)
   AND coalesce(keys, awaited) IS NULL""",
        (SHORTCUTS,),
        "finishing",
    ),
    Mutant(
        "finish as a span without the attempt",
        _sql("finish"),
        """state = 'running' AND attempt = ?4 AND ?5 IN (0, lease)""",
        """state = 'running' AND ?4 AND ?5 IN (0, lease)""",
        (SHORTCUTS,),
        "fenced",
    ),
    Mutant(
        "finish as a span without the state",
        _sql("finish"),
        """state = 'running' AND attempt = ?4 AND ?5 IN (0, lease)""",
        """attempt = ?4 AND ?5 IN (0, lease)""",
        (SHORTCUTS,),
        "fenced",
    ),
    Mutant(
        "finish as a span without the lease",
        _sql("finish"),
        """state = 'running' AND attempt = ?4 AND ?5 IN (0, lease)""",
        """state = 'running' AND attempt = ?4 AND ?5 >= 0""",
        (SHORTCUTS,),
        "fenced",
    ),
    Mutant(
        "finish as a span of those that hold keys",
        _sql("finish"),
        """AND attempt = ?4 AND ?5 IN (0, lease)
   AND coalesce(keys, awaited, dedup_held) IS NULL""",
        """AND attempt = ?4 AND ?5 IN (0, lease)
   AND coalesce(awaited, dedup_held) IS NULL""",
        (SHORTCUTS,),
        "finishing",
    ),
    Mutant(
        "finish as a span of those that others wait for",
        _sql("finish"),
        """AND attempt = ?4 AND ?5 IN (0, lease)
   AND coalesce(keys, awaited, dedup_held) IS NULL""",
        """AND attempt = ?4 AND ?5 IN (0, lease)
   AND coalesce(keys, dedup_held) IS NULL""",
        (SHORTCUTS,),
        "finishing",
    ),
    Mutant(
        "finish as a span of those that keep a dedup key",
        _sql("finish"),
        """AND attempt = ?4 AND ?5 IN (0, lease)
   AND coalesce(keys, awaited, dedup_held) IS NULL""",
        """AND attempt = ?4 AND ?5 IN (0, lease)
   AND coalesce(keys, awaited) IS NULL""",
        (SHORTCUTS,),
        "finishing",
    ),
    Mutant(
        "finish some of them at once, and the others not at all",
        "store/sqlite/finish.py",
        "if 0 < changed < len(nos):",
        "if not nos:",
        ("tests/store/test_sqlite_commit.py",),
        "short_way",
    ),
    Mutant(
        "finish once more what was not undone, alone",
        "store/sqlite/thread.py",
        """        db.execute("ROLLBACK")
        db.execute(self._begin)  # perhaps""",
        "        # perhaps",
        ("tests/store/test_sqlite_commit.py",),
        "short_way",
    ),
    Mutant(
        "finish once more what was not undone, in a group",
        "store/sqlite/thread.py",
        """            db.execute("ROLLBACK TO call")
            return tx""",
        "            return tx",
        ("tests/store/test_sqlite_commit.py",),
        "short_way",
    ),
    Mutant(
        "of two verdicts about one task both, at once",
        "store/sqlite/finish.py",
        "or len(nos) < len(verdicts)",
        "or not verdicts",
        (SHORTCUTS,),
        "fenced",
    ),
    Mutant(
        "of two verdicts about one task both",
        "store/sqlite/finish.py",
        "len(set().union(*fences.values())) < len(verdicts)",
        "not verdicts",
        (SHORTCUTS,),
        "finishing",
    ),
    Mutant(
        "report without the attempt",
        _sql("finish"),
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)",
        "WHERE no = ?1 AND ?2 AND state = 'running' AND ?3 IN (0, lease)",
        _tests("fencing"),
        "progress",
    ),
    Mutant(
        "report without the state",
        _sql("finish"),
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)",
        "WHERE no = ?1 AND attempt = ?2 AND ?3 IN (0, lease)",
        _tests("fencing"),
        "progress",
    ),
    Mutant(
        "mark_started without the attempt",
        _sql("finish"),
        "AND v.value ->> 1 = t.attempt AND v.value ->> 2 IN (0, t.lease)",
        "AND v.value ->> 2 IN (0, t.lease)",
        _tests("claim_ahead"),
        "stale",
    ),
    Mutant(
        "mark_started without the state",
        _sql("finish"),
        "AND t.state = 'running' AND t.started_at IS NULL",
        "AND t.started_at IS NULL",
        (HERE,),
    ),
    Mutant(
        "mark_started on one that has started",
        _sql("finish"),
        "AND t.state = 'running' AND t.started_at IS NULL",
        "AND t.state = 'running'",
        (HERE,),
    ),
    Mutant(
        "enqueue by an attempt without the attempt",
        _sql("enqueue"),
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)",
        "WHERE no = ?1 AND ?2 AND state = 'running' AND ?3 IN (0, lease)",
        _tests("fencing"),
        "enqueues",
    ),
    Mutant(
        "enqueue by an attempt without the state",
        _sql("enqueue"),
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)",
        "WHERE no = ?1 AND attempt = ?2 AND ?3 IN (0, lease)",
        _tests("fencing"),
        "enqueues",
    ),
    Mutant(
        "finish without the lease",
        _sql("finish"),
        "AND t.attempt = v.value ->> 1 AND v.value ->> 2 IN (0, t.lease)",
        "AND t.attempt = v.value ->> 1",
        _tests("lease_fence"),
        "verdict",
    ),
    Mutant(
        "of two verdicts the first, whatever its lease",
        "store/sqlite/finish.py",
        "if row is not None and verdict.lease in (0, row.lease):",
        "if row is not None:",
        _tests("lease_fence"),
        "verdict",
    ),
    Mutant(
        "report without the lease",
        _sql("finish"),
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)",
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 >= 0",
        _tests("lease_fence"),
        "progress",
    ),
    Mutant(
        "mark_started without the lease",
        _sql("finish"),
        "AND v.value ->> 1 = t.attempt AND v.value ->> 2 IN (0, t.lease)",
        "AND v.value ->> 1 = t.attempt",
        _tests("lease_fence"),
        "start",
    ),
    Mutant(
        "enqueue by an attempt without the lease",
        _sql("enqueue"),
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)",
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 >= 0",
        _tests("lease_fence"),
        "enqueues",
    ),
    Mutant(
        "a claim does not count the attempt",
        _sql("claim"),
        "attempt = attempt + 1",
        "attempt = 1",
        _tests("life"),
        "attempt",
    ),
)

NODES = (
    Mutant(
        "claim after the lease",
        _sql("claim"),
        "n.boot = ?2 AND n.until > ?3",
        "n.boot = ?2 AND ?3",
        _tests("claim_nodes"),
        "lease",
    ),
    Mutant(
        "claim after a reboot",
        _sql("claim"),
        "n.boot = ?2 AND n.until > ?3",
        "?2 <> '' AND n.until > ?3",
        (REBOOT,),
    ),
    Mutant(
        "claim by an older incarnation",
        _sql("claim"),
        "WHERE o.id = n.id AND o.lease > n.lease",
        "WHERE FALSE",
        _tests("claim_nodes"),
        "incarnation",
    ),
    Mutant(
        "claim beyond the slots",
        _sql("claim"),
        "WHERE state = 'running' AND lease = n.lease AND started_at IS NOT NULL",
        "WHERE FALSE",
        _tests("claim_nodes"),
        "slots",
    ),
    Mutant(
        "claim of kinds the node does not run",
        _sql("claim"),
        "ON s.lease = ?1 AND s.route = t.route",
        "ON s.lease = ?1",
        _tests("claim_nodes"),
        "kinds",
    ),
    Mutant(
        "the answer again, of any request",
        _sql("claim"),
        "AND lease = ?1 AND request = ?2",
        "AND lease = ?1 AND ?2",
        _tests("request_numbers"),
        "number",
    ),
    Mutant(
        "the answer again, of any lease",
        _sql("claim"),
        "AND lease = ?1 AND request = ?2",
        "AND ?1 AND request = ?2",
        (HERE,),
    ),
    Mutant(
        "an answered request is forgotten",
        _sql("claim"),
        "UPDATE taskyard_nodes SET last_request = ?2 WHERE lease = ?1",
        "UPDATE taskyard_nodes SET last_request = last_request WHERE lease = ?1 AND ?2",
        _tests("request_numbers"),
        "same",
    ),
    Mutant(
        "renew every lease",
        _sql("nodes"),
        "usage = coalesce(?5, usage)\n WHERE lease = ?1",
        "usage = coalesce(?5, usage)\n WHERE ?1 IN (SELECT lease FROM taskyard_nodes)",
        (HERE,),
    ),
    Mutant(
        "renew for no longer",
        _sql("nodes"),
        "SET until = ?2 + lease_us",
        "SET until = max(until, ?2)",
        _tests("leases"),
        "renews",
    ),
    Mutant(
        "rescue of live leases",
        _sql("upkeep"),
        "?4 AND until <= ?2",
        "?4 AND ?2",
        _tests("rescue"),
        "live",
    ),
    Mutant(
        "no rescue after a reboot",
        _sql("upkeep"),
        "boot <> ?1 OR (?4",
        "?1 = '' OR (?4",
        (REBOOT,),
    ),
    Mutant(
        "rescue of what runs elsewhere",
        _sql("upkeep"),
        "FROM taskyard_tasks WHERE state = 'running' AND lease = ?1",
        "FROM taskyard_tasks WHERE state = 'running' AND ?1",
        _tests("rescue"),
    ),
    Mutant(
        "a duty for everyone",
        _sql("upkeep"),
        "WHERE holder = excluded.holder OR boot <> excluded.boot OR until <= ?5",
        "WHERE ?5",
        _tests("duties"),
        "one_does",
    ),
    Mutant(
        "a duty for its first holder for ever",
        _sql("upkeep"),
        "WHERE holder = excluded.holder OR boot <> excluded.boot OR until <= ?5",
        "WHERE holder = excluded.holder OR boot <> excluded.boot AND ?5",
        _tests("duties"),
        "passes_on",
    ),
    Mutant(
        "a duty that does not pass on at a reboot",
        _sql("upkeep"),
        "OR boot <> excluded.boot OR until <= ?5",
        "OR until <= ?5",
        (REBOOT,),
    ),
)

ROOM = (
    Mutant(
        "a lane without capacity",
        _sql("claim"),
        "WHERE r.state = 'running' AND r.lane = t.lane",
        "WHERE FALSE",
        _tests("claim_room"),
        "capacity",
    ),
    Mutant(
        "a paused lane goes on",
        _sql("claim"),
        "AND (NOT l.paused OR l.paused_until <= ?4)",
        "AND ?4",
        _tests("claim_room"),
        "paused_lane",
    ),
    Mutant(
        "keys are held by nobody",
        _sql("keys"),
        "SELECT h.key, count(*) AS holders",
        "SELECT h.key, 0 AS holders",
        _tests("claim_room"),
        "key",
    ),
    Mutant(
        "keys are not taken",
        _sql("claim"),
        "CROSS JOIN json_each(t.keys) AS k",
        "CROSS JOIN json_each('[]') AS k",
        _tests("claim_room"),
        "key",
    ),
    Mutant(
        "keys are not given back",
        "store/sqlite/finish.py",
        'tx.run(tx.sql("finish")["give_back"], to_json(held))',
        "pass",
        _tests("claim_room"),
        "key_is_held",
    ),
    Mutant(
        "waiters are not woken",
        "store/sqlite/finish.py",
        "keys.wake(tx, Counter(key for key, _ in held))",
        "pass",
        _tests("room"),
        "free",
    ),
    Mutant(
        "a dedup key keeps nobody out",
        "store/sqlite/migrations/0001_kernel.sql",
        "ON taskyard_tasks (dedup) WHERE dedup_held = 1",
        "ON taskyard_tasks (dedup, no) WHERE dedup_held = 1",
        _tests("dedup"),
        "keeps_another",
    ),
    Mutant(
        "a dedup key is kept for ever",
        "store/sqlite/finish.py",
        "    kept = {row.no for row in rows if row.dedup_held}\n",
        "    kept: set[int] = set()\n",
        _tests("dedup"),
        "completed",
    ),
    Mutant(
        "a dedup key comes back after its start",
        _sql("finish"),
        "iif(t.dedup_held = 1 AND v.ended_at IS NULL, 1,",
        "iif(v.ended_at IS NULL, 1,",
        _tests("dedup"),
        "until_start",
    ),
    Mutant(
        "claim after the deadline",
        "store/sqlite/claim.py",
        "found.deadline is not None and found.deadline <= now",
        "found.deadline is not None and found.deadline < 0",
        _tests("claim_room"),
        "deadline",
    ),
    Mutant(
        "expire before the deadline",
        _sql("upkeep"),
        "AND state IN ('pending', 'queued') AND deadline <= ?1 LIMIT ?2)",
        "AND state IN ('pending', 'queued') AND ?1 LIMIT ?2)",
        _tests("due"),
        "deadline or running",
    ),
    Mutant(
        "promote before the time",
        _sql("upkeep"),
        "WHERE state = 'pending' AND waits_for = 0 AND run_at <= ?1",
        "WHERE state = 'pending' AND waits_for = 0 AND ?1",
        _tests("due"),
        "promote or queued",
    ),
    Mutant(
        "cancel is forgotten",
        "store/sqlite/finish.py",
        "[heed(v, asked.get(v.no)) for v in verdicts] if asked else list(verdicts)",
        "list(verdicts)",
        _tests("finish"),
        "asked_to_cancel",
    ),
    Mutant(
        "cancel is forgotten where another verdict is stale",
        "store/sqlite/finish.py",
        "final = heed(verdict, row.asked)",
        "final = verdict",
        (SHORTCUTS,),
        "finishing",
    ),
    Mutant(
        "a lane with a limit is claimed ahead",
        "store/sqlite/claim.py",
        "if no not in kept_back][: self._ahead]",
        "][: self._ahead]",
        _tests("claim_ahead"),
    ),
    Mutant(
        "a suspect is claimed ahead",
        _sql("claim"),
        "\n               coalesce(keys, deadline, rotation, dedup_until) IS NOT NULL OR reason = "
        "'rescued'",
        "\n               coalesce(keys, deadline, rotation, dedup_until) IS NOT NULL",
        _tests("claim_ahead"),
    ),
    Mutant(
        "a suspect of one of several kinds is claimed ahead",
        _sql("claim"),
        "seq, coalesce(keys, deadline, rotation, dedup_until) IS NOT NULL OR reason = 'rescued'",
        "seq, coalesce(keys, deadline, rotation, dedup_until) IS NOT NULL",
        (SHORTCUTS,),
        "suspects",
    ),
)

LIFE = (
    Mutant(
        "checkpoint without the attempt",
        _sql("pausing"),
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)",
        "WHERE no = ?1 AND ?2 AND state = 'running' AND ?3 IN (0, lease)",
        (HERE,),
        "checkpoint",
    ),
    Mutant(
        "checkpoint without the state",
        _sql("pausing"),
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)",
        "WHERE no = ?1 AND attempt = ?2 AND ?3 IN (0, lease)",
        (HERE,),
        "checkpoint",
    ),
    Mutant(
        "checkpoint without the lease",
        _sql("pausing"),
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)",
        "WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 >= 0",
        (HERE,),
        "checkpoint",
    ),
    Mutant(
        "a pause takes the place of a cancel",
        _sql("pausing"),
        "SET asked = coalesce(asked, 'pause')",
        "SET asked = 'pause'",
        _tests("pausing"),
        "overrides",
    ),
    Mutant(
        "a fifo lane passes over its head",
        "store/sqlite/claim.py",
        "fifo=frozenset(s.lane for s in streams if s.order is Order.FIFO),",
        "",
        _tests("orders"),
        "fifo",
    ),
    Mutant(
        "a fifo lane passes over what this node does not serve",
        "store/sqlite/candidates.py",
        "return [one for one in found if one.place < nearest]",
        "return found",
        _tests("orders"),
        "fifo",
    ),
    Mutant(
        "a fair lane knows no priority",
        "store/sqlite/fair.py",
        "found.sort(key=lambda task: (task.priority, task.seq))",
        "found.sort(key=lambda task: task.place)",
        _tests("orders"),
        "fair",
    ),
    Mutant(
        "the rate of a lane is never used up",
        "store/sqlite/rates.py",
        "rate.take(full_at or 0, tx.now, count)",
        "full_at or 0",
        _tests("rates"),
        "lane",
    ),
    Mutant(
        "the rate of a key is never used up",
        "store/sqlite/rates.py",
        "rate.take(bucket.full_at, tx.now, taken[key]) if taken[key] else bucket.full_at",
        "bucket.full_at",
        _tests("rates"),
        "key",
    ),
    Mutant(
        "a lane has any depth",
        "store/sqlite/intake.py",
        "if self._depths[number] >= lane.max_depth:",
        "if self._depths[number] > 10**9:",
        _tests("depth"),
        "refused",
    ),
    Mutant(
        "a key that is held keeps nobody out",
        "store/sqlite/intake.py",
        "return None if held is None else Refused",
        "return None if held != 0 else Refused",
        _tests("refuse_if_held"),
        "refused",
    ),
    Mutant(
        "a dependency ends again and again",
        _sql("dependencies"),
        "SET unmet = 0 WHERE id IN",
        "SET unmet = 1 WHERE id IN",
        (HERE,),
    ),
    Mutant(
        "prune of what others depend on",
        _sql("prune"),
        "t.awaited IS NULL OR NOT EXISTS",
        "TRUE OR NOT EXISTS",
        _tests("dependencies"),
        "prune",
    ),
)

MUTANTS = (*FENCES, *NODES, *ROOM, *LIFE)
