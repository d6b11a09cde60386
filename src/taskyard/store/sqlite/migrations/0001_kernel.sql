-- The kernel's tables. States are written out in index predicates; tests/store/test_sql.py
-- checks that every state and reason named in SQL is one of the domain's.

CREATE TABLE taskyard_lanes (
    no            INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    capacity      INTEGER,               -- NULL: no limit
    paused        INTEGER NOT NULL DEFAULT 0,
    paused_reason TEXT,
    lane_order    TEXT NOT NULL DEFAULT 'priority'
);

-- A route is a kind with what its tasks require of a node.
CREATE TABLE taskyard_routes (
    no       INTEGER PRIMARY KEY,
    kind     TEXT NOT NULL,
    requires TEXT NOT NULL DEFAULT '[]',
    UNIQUE (kind, requires)
);

-- One row a task: small, because every transition rewrites it. Payloads, results and errors are
-- beside it, so that what a task does not use costs it nothing.
CREATE TABLE taskyard_tasks (
    no          INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    lane        INTEGER NOT NULL,
    route       INTEGER NOT NULL,
    rota        TEXT NOT NULL DEFAULT '',   -- the group in whose rotation it waits; '' unless the lane is fair
    priority    INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    state       TEXT NOT NULL,
    reason      TEXT NOT NULL,
    attempt     INTEGER NOT NULL DEFAULT 0,
    charged     INTEGER NOT NULL DEFAULT 0,
    max_charged INTEGER NOT NULL,
    losses      INTEGER NOT NULL DEFAULT 0,
    lease       INTEGER,                    -- the node's incarnation that runs it
    request     INTEGER,                    -- the claim that took it
    asked       TEXT,                       -- what a running body is asked to do: 'cancel'
    keys        TEXT,                       -- JSON list
    parked_on   TEXT,                       -- queued, and last seen waiting for this full key
    grp         TEXT,
    dedup       TEXT,
    dedup_until TEXT,
    dedup_held  INTEGER,
    timeout     INTEGER NOT NULL,
    deadline    INTEGER,
    created_at  INTEGER NOT NULL,
    run_at      INTEGER NOT NULL,
    started_at  INTEGER,                    -- NULL while claimed ahead
    ended_at    INTEGER,
    node        TEXT
);

-- What may be claimed, in the order of each lane. Parked tasks are not in it, so a backlog behind
-- one held key is never scanned.
CREATE INDEX taskyard_ready ON taskyard_tasks (lane, route, rota, priority, seq)
    WHERE state = 'queued' AND parked_on IS NULL;
CREATE INDEX taskyard_parked ON taskyard_tasks (parked_on, lane, route, rota, priority, seq)
    WHERE parked_on IS NOT NULL;
CREATE INDEX taskyard_due ON taskyard_tasks (run_at) WHERE state = 'pending';
CREATE INDEX taskyard_running_lane ON taskyard_tasks (lane) WHERE state = 'running';
CREATE INDEX taskyard_running_lease ON taskyard_tasks (lease) WHERE state = 'running';
CREATE INDEX taskyard_deadlines ON taskyard_tasks (deadline)
    WHERE deadline IS NOT NULL AND state IN ('pending', 'queued');
CREATE UNIQUE INDEX taskyard_dedup ON taskyard_tasks (dedup) WHERE dedup_held = 1;
CREATE INDEX taskyard_ended ON taskyard_tasks (state) WHERE ended_at IS NOT NULL;
CREATE INDEX taskyard_live_paused ON taskyard_tasks (state) WHERE state = 'paused';

CREATE TABLE taskyard_payloads (no INTEGER PRIMARY KEY, payload TEXT NOT NULL);
CREATE TABLE taskyard_results (no INTEGER PRIMARY KEY, result TEXT NOT NULL);
CREATE TABLE taskyard_progress (no INTEGER PRIMARY KEY, progress TEXT NOT NULL);

-- The attempts that did not end well.
CREATE TABLE taskyard_failures (
    no         INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    reason     TEXT NOT NULL,
    at         INTEGER NOT NULL,
    started_at INTEGER,
    node       TEXT,
    type       TEXT,
    message    TEXT,
    stack      TEXT,
    PRIMARY KEY (no, attempt)
) WITHOUT ROWID;

-- Which tasks name a key: for looking tasks up, not for limits.
CREATE TABLE taskyard_task_keys (
    key TEXT NOT NULL,
    no  INTEGER NOT NULL,
    PRIMARY KEY (key, no)
) WITHOUT ROWID;

-- Limits are counted over what runs: a row here is one running task's hold on one key.
CREATE TABLE taskyard_held (
    key TEXT NOT NULL,
    no  INTEGER NOT NULL,
    PRIMARY KEY (key, no)
) WITHOUT ROWID;

CREATE TABLE taskyard_key_rules (pattern TEXT PRIMARY KEY, key_limit INTEGER NOT NULL) WITHOUT ROWID;

-- One row an incarnation. Leases are in boot time: a clock that is set cannot end them, a reboot does.
CREATE TABLE taskyard_nodes (
    lease         INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT NOT NULL,
    state         TEXT NOT NULL,
    kinds         TEXT NOT NULL,
    capabilities  TEXT NOT NULL,
    labels        TEXT NOT NULL,
    slots         INTEGER NOT NULL,
    process       TEXT,
    lease_us      INTEGER NOT NULL,
    boot          TEXT NOT NULL,
    until         INTEGER NOT NULL,
    last_request  INTEGER NOT NULL DEFAULT 0,
    registered_at INTEGER NOT NULL,
    seen_at       INTEGER NOT NULL
);
CREATE INDEX taskyard_node_ids ON taskyard_nodes (id, lease);

CREATE TABLE taskyard_node_routes (
    lease INTEGER NOT NULL,
    route INTEGER NOT NULL,
    PRIMARY KEY (lease, route)
) WITHOUT ROWID;

CREATE TABLE taskyard_duties (
    name   TEXT PRIMARY KEY,
    holder INTEGER NOT NULL,
    boot   TEXT NOT NULL,
    until  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE taskyard_audit (
    no      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT NOT NULL DEFAULT ''
);

INSERT INTO taskyard_meta (name, value) VALUES ('seq', 0), ('paused', 0);
