"""SQL names the domain's states and reasons, and finds its rows through the intended indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

import apsw
import pytest

from taskyard.domain.node import NodeState
from taskyard.domain.state import TRANSITIONS, Reason, State
from taskyard.store.sqlite.connection import MEMORY, connect
from taskyard.store.sqlite.migrate import migrate
from taskyard.store.sqlite.queries import DEFAULT_NAMESPACE, Queries, load, migrations

FOLDER = files("taskyard.store.sqlite") / "sql"
VERBS = sorted(entry.name.removesuffix(".sql") for entry in FOLDER.iterdir())

COMPARED = re.compile(r"\b(state|reason)\s*(?:=|<>)\s*'(\w+)'")
AMONG = re.compile(r"\b(state|reason)\s+IN\s*\(('[^)]*')\)")
NAMED = re.compile(r"'(\w+)'\s+AS\s+(state|reason)\b")
CHANGED = re.compile(r"SET state = '(\w+)', reason = '(\w+)'")
PARAMETER = re.compile(r"\?(\d+)")


def statements() -> Iterator[tuple[str, str, str]]:
    for verb in VERBS:
        queries = load(verb, DEFAULT_NAMESPACE)
        for name in names(queries):
            yield verb, name, queries[name]


def names(queries: Queries) -> list[str]:
    return list(queries._statements)


def literals(sql: str) -> Iterator[tuple[str, str]]:
    """(column, literal) wherever SQL spells a state or a reason out."""
    yield from COMPARED.findall(sql)
    for column, many in AMONG.findall(sql):
        yield from ((column, one) for one in re.findall(r"'(\w+)'", many))
    for literal, column in NAMED.findall(sql):
        yield column, literal


SOURCES = [(f"{verb}:{name}", sql) for verb, name, sql in statements()]
SOURCES += [(f"migration {version}", sql) for version, sql in migrations()]


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize(("where", "sql"), SOURCES, ids=[where for where, _ in SOURCES])
def test_every_state_and_reason_in_sql_is_one_of_the_domain(where: str, sql: str) -> None:
    states = {*State, *NodeState} if "taskyard_nodes" in sql else set(State)

    for column, literal in literals(sql):
        assert literal in (states if column == "state" else set(Reason)), (where, literal)


@pytest.mark.spec("engine-6")
def test_the_check_sees_literals() -> None:
    seen = {literal for _, sql in SOURCES for _, literal in literals(sql)}

    assert {"queued", "running", "pending", "rescued", "claimed", "expired"} <= seen


@pytest.mark.spec("engine-6")
def test_every_transition_written_in_sql_is_in_the_table() -> None:
    allowed = {
        (after, reason)
        for targets in TRANSITIONS.values()
        for after, reasons in targets.items()
        for reason in reasons
    }
    written = {
        (State(state), Reason(reason))
        for _, sql in SOURCES
        for state, reason in CHANGED.findall(sql)
    }

    assert (State.RUNNING, Reason.CLAIMED) in written
    assert written <= allowed


@pytest.mark.spec("engine-5")
def test_counts_name_every_state_that_has_not_ended() -> None:
    counts = load("read", DEFAULT_NAMESPACE)["counts"]

    for state in TRANSITIONS:
        assert f"'{state}'" in counts


@pytest.fixture(scope="module")
def db() -> Iterator[apsw.Connection]:
    connection = connect(MEMORY)
    migrate(connection, DEFAULT_NAMESPACE, MEMORY)
    yield connection
    connection.close()


def plan(db: apsw.Connection, sql: str) -> list[str]:
    many = max((int(number) for number in PARAMETER.findall(sql)), default=0)
    return [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * many)]


INTENDED = [
    ("claim", "begin", "taskyard_running (lease=?)"),
    ("claim", "begin", "taskyard_ready"),
    ("claim", "begin", "COVERING INDEX taskyard_running"),
    ("claim", "begin", "MATERIALIZE runs"),  # once for all lanes that have a capacity
    ("lanes", "list", "MATERIALIZE runs"),
    ("claim", "again", "taskyard_running (lease=?)"),
    ("claim", "whole", "taskyard_ready (lane=? AND route=?)"),
    ("claim", "candidates", "taskyard_ready (lane=? AND route=?)"),
    ("claim", "heads", "taskyard_ready (lane=? AND route>?)"),
    ("claim", "take", "INTEGER PRIMARY KEY"),
    ("claim", "load", "INTEGER PRIMARY KEY"),
    ("order", "present", "taskyard_ready (lane=? AND route>?)"),
    ("order", "last", "taskyard_rounds (lane=? AND rotation=?)"),
    ("order", "groups", "taskyard_groups (lane=? AND rotation=? AND route=?)"),
    ("order", "queue", "INTEGER PRIMARY KEY"),
    ("order", "queued", "taskyard_parked_lane (lane=?)"),
    ("keys", "heads", "taskyard_parked (parked_on=?"),
    ("keys", "waited", "taskyard_parked (parked_on=?"),
    ("keys", "held", "PRIMARY KEY (key=?)"),
    ("keys", "all_waited", "taskyard_parked (parked_on>?)"),
    ("rates", "buckets", "PRIMARY KEY (key=?)"),
    ("rates", "due", "taskyard_buckets_opening (opens_at>? AND opens_at<?)"),
    ("rates", "forget_full", "taskyard_buckets_full (full_at<?)"),
    ("finish", "accepted", "INTEGER PRIMARY KEY"),
    ("finish", "settle", "INTEGER PRIMARY KEY"),
    ("finish", "complete", "INTEGER PRIMARY KEY"),
    ("finish", "complete_at_once", "INTEGER PRIMARY KEY"),
    ("finish", "give_back", "PRIMARY KEY (key=? AND no=?)"),
    ("dependencies", "dependents", "taskyard_dependents (id=?)"),
    ("dependencies", "meet", "taskyard_dependents (id=?)"),
    ("dependencies", "unmet", "PRIMARY KEY (no=?)"),
    ("enqueue", "clashes", "taskyard_dedup (dedup=?)"),
    ("intake", "keepers", "taskyard_dedup (dedup=?)"),
    ("intake", "depth", "taskyard_ready (lane=?)"),
    ("intake", "depth", "taskyard_parked_lane (lane=?)"),
    ("intake", "depth", "taskyard_pending_lane (lane=?)"),
    ("upkeep", "due", "taskyard_due (run_at<?)"),
    ("upkeep", "next_due", "taskyard_due"),
    ("upkeep", "next_due", "taskyard_buckets_opening"),
    ("upkeep", "next_due", "taskyard_lanes_opening"),
    ("upkeep", "next_due", "taskyard_lanes_paused_until"),
    ("upkeep", "expired", "taskyard_deadlines"),
    ("upkeep", "runs", "taskyard_running (lease=?)"),
    ("nodes", "holds", "taskyard_running (lease=?)"),
    ("prune", "look", "taskyard_ended_at (state=?"),
    ("prune", "look", "taskyard_dependents (id=?)"),
    ("prune", "drop_keys", "PRIMARY KEY (key=? AND no=?)"),
    ("prune", "drop_failures", "PRIMARY KEY (no=?)"),
    ("prune", "drop_dependencies", "PRIMARY KEY (no=?)"),
    ("figures", "tallied", "PRIMARY KEY (hour>?)"),
    ("find", "ready_in", "taskyard_ready (lane=? AND route=?)"),
    ("read", "before", "taskyard_ready (lane=? AND route=?"),
    ("read", "head", "taskyard_ready (lane=? AND route>?)"),
]


@pytest.mark.spec("engine-12")
@pytest.mark.parametrize(("verb", "name", "index"), INTENDED)
def test_a_hot_statement_uses_its_index(
    db: apsw.Connection, verb: str, name: str, index: str
) -> None:
    lines = plan(db, load(verb, DEFAULT_NAMESPACE)[name])

    assert any(index in line for line in lines), lines


LISTS = {
    "every": "INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    "named": "PRIMARY KEY (key=? AND no>? AND no<?)",
    "ended": "taskyard_ended (state=? AND no>? AND no<?)",
    "pending": "taskyard_pending_lane (lane=? AND rowid>? AND rowid<?)",
    "parked": "taskyard_parked_lane (lane=? AND rowid>? AND rowid<?)",
    "paused": "taskyard_live_paused (state=? AND rowid>? AND rowid<?)",
}


@pytest.mark.spec("engine-12", "lifecycle-7")
def test_what_runs_is_listed_without_a_look_at_rows(db: apsw.Connection) -> None:
    """All of it, and put in order: it is never more than nodes hold."""
    lines = plan(db, load("find", DEFAULT_NAMESPACE)["running"])

    assert "SCAN taskyard_tasks USING COVERING INDEX taskyard_running" in lines


@pytest.mark.spec("engine-12", "lifecycle-7")
@pytest.mark.parametrize("around", ["numbers", "passing"])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_read_in_its_order(db: apsw.Connection, name: str, around: str) -> None:
    queries = load("find", DEFAULT_NAMESPACE)
    lines = plan(db, queries[around].format(list=queries[name]))

    assert any(LISTS[name] in line for line in lines), lines
    assert not any("TEMP B-TREE" in line for line in lines), lines


TASKS = r"taskyard_(?:tasks|held|failures|payloads|task_keys|dependencies|checkpoints|logs)"
WHOLE = [(f"{v}:{n}", sql) for v, n, sql in statements() if re.search(TASKS, sql)]
# What is put around a list is looked at with it.
WHOLE = [(where, sql) for where, sql in WHOLE if "{list}" not in sql]


def scans(lines: list[str], sql: str) -> list[str]:
    """The steps that read a table of tasks from end to end, without an index."""
    aliases = set(re.findall(rf"{TASKS} AS (\w+)", sql)) | set(re.findall(TASKS, sql))
    return [
        line
        for line in lines
        if (found := re.match(r"SCAN (\w+)(?! .*INDEX)", line)) and found[1] in aliases
    ]


@pytest.mark.spec("engine-12")
@pytest.mark.parametrize(("where", "sql"), WHOLE, ids=[where for where, _ in WHOLE])
def test_no_statement_reads_all_tasks(db: apsw.Connection, where: str, sql: str) -> None:
    lines = plan(db, sql)

    if where in ("keys:list", "unreadable:release"):  # what is held is as much as runs
        lines = [line for line in lines if "taskyard_held" not in line]
    assert scans(lines, sql) == []


@pytest.mark.spec("engine-12")
def test_the_check_sees_a_scan(db: apsw.Connection) -> None:
    sql = "SELECT t.no FROM taskyard_tasks AS t WHERE t.priority = 3"

    assert scans(plan(db, sql), sql) == ["SCAN t"]


@pytest.mark.spec("engine-28")
@pytest.mark.parametrize(("verb", "name", "sql"), list(statements()))
def test_every_statement_can_be_prepared(
    db: apsw.Connection, verb: str, name: str, sql: str
) -> None:
    a_list = load("find", DEFAULT_NAMESPACE)["ended"]
    plan(db, sql.format(list=a_list) if "{list}" in sql else sql)
