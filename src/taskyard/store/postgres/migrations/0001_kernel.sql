-- The kernel's tables. A task's state is the table it is in: ready or parked (queued), pending,
-- running, done. Each holds what changes with the state; the definition stands once, in tasks.
-- Rows of ready, parked and pending are never updated, only deleted and inserted: whoever has
-- locked one knows that it is the last version.

CREATE SEQUENCE taskyard.seq AS bigint;      -- numbers of tasks, and places in their order
CREATE SEQUENCE taskyard.leases AS bigint;

CREATE TABLE taskyard.lanes (
    no            integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE,
    capacity      integer,                   -- NULL: no limit
    paused        boolean NOT NULL DEFAULT false,
    paused_reason text,
    lane_order    text NOT NULL DEFAULT 'priority'
);

-- A route is a kind with what its tasks require of a node.
CREATE TABLE taskyard.routes (
    no       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind     text COLLATE "C" NOT NULL,
    requires text[] COLLATE "C" NOT NULL DEFAULT '{}',
    UNIQUE (kind, requires)
);

-- What a task is. Only its place, its due time and its deadline ever change, and seldom.
CREATE TABLE taskyard.tasks (
    no          bigint PRIMARY KEY,
    seq         bigint NOT NULL,
    timeout     bigint NOT NULL,
    created_at  bigint NOT NULL,
    run_at      bigint NOT NULL,
    deadline    bigint,
    lane        integer NOT NULL,
    route       integer NOT NULL,
    max_charged integer NOT NULL,
    priority    smallint NOT NULL,
    id          text COLLATE "C" NOT NULL UNIQUE,
    rota        text COLLATE "C" NOT NULL DEFAULT '', -- the group in whose rotation it waits; '' unless the lane is fair
    payload     text NOT NULL,
    keys        text[] COLLATE "C",
    grp         text,
    dedup       text COLLATE "C",
    dedup_until text
);

-- What may be claimed, in the order of each lane.
CREATE TABLE taskyard.ready (
    seq      bigint NOT NULL,
    no       bigint NOT NULL,
    lane     integer NOT NULL,
    route    integer NOT NULL,
    attempt  integer NOT NULL DEFAULT 0,
    charged  integer NOT NULL DEFAULT 0,
    losses   integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL,
    special  boolean NOT NULL DEFAULT false,  -- has keys, or its last node died: claimed under the lock
    rota     text COLLATE "C" NOT NULL DEFAULT '',
    reason   text NOT NULL,
    keys     text[] COLLATE "C",
    dedup    text COLLATE "C",
    deadline bigint,
    node     text,
    PRIMARY KEY (lane, route, rota, priority, seq)
);
CREATE INDEX ready_special ON taskyard.ready (lane, route, rota, priority, seq) WHERE special;
CREATE INDEX ready_deadline ON taskyard.ready (deadline) WHERE deadline IS NOT NULL;

-- Queued, and last seen waiting for this full key: a backlog behind one held key is never scanned.
CREATE TABLE taskyard.parked (
    key text COLLATE "C" NOT NULL,
    LIKE taskyard.ready INCLUDING DEFAULTS,
    PRIMARY KEY (key, lane, route, rota, priority, seq)
);
CREATE INDEX parked_deadline ON taskyard.parked (deadline) WHERE deadline IS NOT NULL;

CREATE TABLE taskyard.pending (
    no       bigint PRIMARY KEY,
    run_at   bigint NOT NULL,
    deadline bigint,
    lane     integer NOT NULL,
    attempt  integer NOT NULL DEFAULT 0,
    charged  integer NOT NULL DEFAULT 0,
    losses   integer NOT NULL DEFAULT 0,
    reason   text NOT NULL,
    node     text
);
CREATE INDEX pending_due ON taskyard.pending (run_at);
CREATE INDEX pending_deadline ON taskyard.pending (deadline) WHERE deadline IS NOT NULL;

-- The fence: an attempt is the accepted one while its row is here.
CREATE TABLE taskyard.running (
    no         bigint PRIMARY KEY,
    lease      bigint NOT NULL,
    request    bigint NOT NULL,              -- the claim that took it
    started_at bigint,                       -- NULL while claimed ahead
    attempt    integer NOT NULL,
    lane       integer NOT NULL,
    charged    integer NOT NULL,
    losses     integer NOT NULL,
    asked      text,                         -- what its body is asked to do: 'cancel'
    keys       text[] COLLATE "C",
    dedup      text COLLATE "C"
);
CREATE INDEX running_lease ON taskyard.running (lease, lane);

CREATE TABLE taskyard.done (
    no         bigint PRIMARY KEY,
    ended_at   bigint NOT NULL,
    started_at bigint,
    attempt    integer NOT NULL,
    charged    integer NOT NULL,
    losses     integer NOT NULL,
    state      text NOT NULL,
    reason     text NOT NULL,
    node       text,
    result     text
);
CREATE INDEX done_badly ON taskyard.done (state, no) WHERE state <> 'completed';

CREATE TABLE taskyard.progress (no bigint PRIMARY KEY, progress text NOT NULL);

-- The attempts that did not end well.
CREATE TABLE taskyard.failures (
    no         bigint NOT NULL,
    attempt    integer NOT NULL,
    reason     text NOT NULL,
    at         bigint NOT NULL,
    started_at bigint,
    node       text,
    error      text NOT NULL,                -- JSON; as JSON, because text here cannot hold a NUL
    PRIMARY KEY (no, attempt)
);

-- Which tasks name a key: for looking tasks up, not for limits.
CREATE TABLE taskyard.task_keys (
    key text COLLATE "C" NOT NULL,
    no  bigint NOT NULL,
    PRIMARY KEY (key, no)
);

-- Limits are counted over what runs: a row here is one running task's hold on one key.
CREATE TABLE taskyard.held (
    key text COLLATE "C" NOT NULL,
    no  bigint NOT NULL,
    PRIMARY KEY (key, no)
);

CREATE TABLE taskyard.key_rules (
    pattern   text COLLATE "C" PRIMARY KEY,
    prefix    text COLLATE "C",              -- the pattern without its star; NULL: an exact name
    key_limit integer NOT NULL
);
CREATE INDEX key_rules_prefix ON taskyard.key_rules (prefix) WHERE prefix IS NOT NULL;

-- Which task keeps a dedup key, and until when.
CREATE TABLE taskyard.dedup (
    key   text COLLATE "C" PRIMARY KEY,
    no    bigint NOT NULL,
    until text NOT NULL
);

-- One row an incarnation.
CREATE TABLE taskyard.nodes (
    lease         bigint PRIMARY KEY,
    id            text COLLATE "C" NOT NULL,
    state         text NOT NULL,
    kinds         text[] COLLATE "C" NOT NULL,
    capabilities  text[] COLLATE "C" NOT NULL,
    labels        text NOT NULL,
    slots         integer NOT NULL,
    process       text,
    lease_us      bigint NOT NULL,
    until         bigint NOT NULL,
    registered_at bigint NOT NULL,
    seen_at       bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX nodes_id ON taskyard.nodes (id, lease);

CREATE TABLE taskyard.node_routes (
    lease bigint NOT NULL,
    route integer NOT NULL,
    PRIMARY KEY (lease, route)
);

-- The claims of a lease that took something: the same number gets the same answer. A row each and
-- not a counter in the node's row, whose versions would pile up behind a long-held snapshot.
CREATE TABLE taskyard.requests (
    lease  bigint NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (lease, number)
);

CREATE TABLE taskyard.duties (
    name   text COLLATE "C" PRIMARY KEY,
    holder bigint NOT NULL,
    until  bigint NOT NULL
);

CREATE TABLE taskyard.audit (
    no      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    actor   text NOT NULL,
    action  text NOT NULL,
    subject text NOT NULL,
    detail  text NOT NULL DEFAULT ''
);

INSERT INTO taskyard.meta (name, value) VALUES ('paused', 'false');

-- Rows come and go by the thousand in these. Vacuum by number, not by share, and never let it
-- shorten the file: that takes a lock no claim could pass.
ALTER TABLE taskyard.ready SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_truncate = false,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE taskyard.parked SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_truncate = false,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE taskyard.pending SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_truncate = false,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE taskyard.running SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_truncate = false,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE taskyard.held SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, vacuum_truncate = false,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE taskyard.requests SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false,
    autovacuum_vacuum_cost_delay = 0);
