-- Orders, rates, depths, dependencies, pauses, checkpoints, periodic tasks, statistics.

-- Whoever is just saving tasks comes first.
LOCK TABLE taskyard.tasks IN SHARE MODE;

-- --- orders ---
-- A lane is *ordered* if its place is not (priority, seq): its tasks then stand in one queue a route,
-- of priority 0, which no task has. It is *ranked* if a rank comes before the seq.
ALTER TABLE taskyard.lanes
    ADD COLUMN ageing        bigint,         -- microseconds that count as one step of priority
    ADD COLUMN max_depth     integer,        -- most that wait; NULL: no limit
    ADD COLUMN rate          text,           -- JSON; what it comes to stands beside it
    ADD COLUMN rate_interval bigint,
    ADD COLUMN rate_burst    integer,
    ADD COLUMN paused_until  bigint,
    ADD COLUMN ordered boolean GENERATED ALWAYS AS (lane_order <> 'priority' OR ageing IS NOT NULL) STORED,
    ADD COLUMN ranked  boolean GENERATED ALWAYS AS (lane_order = 'fair' OR lane_order = 'priority' AND ageing IS NOT NULL) STORED;
CREATE INDEX lanes_paused_until ON taskyard.lanes (paused_until) WHERE paused_until IS NOT NULL;

ALTER TABLE taskyard.tasks
    DROP COLUMN rota,
    ADD COLUMN on_failure text;              -- NULL: it depends on no other task

DROP INDEX taskyard.ready_special;
ALTER TABLE taskyard.ready
    DROP CONSTRAINT ready_pkey,
    DROP COLUMN rota,
    ADD COLUMN rank    bigint,               -- NULL unless the lane is ranked
    ADD COLUMN grp     text COLLATE "C",     -- these two: NULL unless the lane is fair
    ADD COLUMN urgency smallint,             -- the priority inside the group
    ADD PRIMARY KEY (lane, route, priority, seq);
CREATE INDEX ready_special ON taskyard.ready (lane, route, priority, seq) WHERE special;
CREATE INDEX ready_ranked ON taskyard.ready (lane, route, rank, seq) WHERE rank IS NOT NULL;
CREATE INDEX ready_group ON taskyard.ready (lane, grp, route, urgency, seq) WHERE grp IS NOT NULL;
CREATE INDEX ready_rounds ON taskyard.ready (lane, grp, rank) WHERE grp IS NOT NULL;

ALTER TABLE taskyard.parked
    DROP CONSTRAINT parked_pkey,
    DROP COLUMN rota,
    ADD COLUMN rank    bigint,
    ADD COLUMN grp     text COLLATE "C",
    ADD COLUMN urgency smallint,
    ADD PRIMARY KEY (key, lane, route, priority, seq);
CREATE INDEX parked_ranked ON taskyard.parked (key, lane, route, rank, seq) WHERE rank IS NOT NULL;
CREATE INDEX parked_rounds ON taskyard.parked (lane, grp, rank) WHERE grp IS NOT NULL;

-- With the ready ones, what waits in a lane; a task that is claimed at once is in neither.
CREATE INDEX parked_lane ON taskyard.parked (lane);
CREATE INDEX pending_lane ON taskyard.pending (lane);

ALTER TABLE taskyard.running ADD COLUMN rank bigint;  -- the place to come back to

CREATE INDEX queues_lane ON taskyard.queues (lane, priority, route);

-- How the queue is to be looked at: room is that of the lane; nothing is taken from `bound` on.
ALTER TYPE taskyard.stretch ADD ATTRIBUTE lane_order text;
ALTER TYPE taskyard.stretch ADD ATTRIBUTE ranked boolean;
ALTER TYPE taskyard.stretch ADD ATTRIBUTE bound bigint;

-- A place of a fair lane, as a claim fills it: with the task that has that seq of its own.
CREATE TYPE taskyard.seat AS (
    lane  integer,
    route integer,
    own   bigint,
    rank  bigint,
    seq   bigint
);

-- A task that is to be queued; with a rank it keeps that place, else it gets a new one.
CREATE TYPE taskyard.entrant AS (
    no      bigint,
    attempt integer,
    charged integer,
    losses  integer,
    reason  text,
    node    text,
    rank    bigint
);

-- --- rates ---
ALTER TABLE taskyard.key_rules
    ADD COLUMN rate          text,
    ADD COLUMN rate_interval bigint,
    ADD COLUMN rate_burst    integer;

-- Buckets that are not full: of a lane (its key is '') or of a key (its lane is 0). A ledger as loads
-- is: a change inserts the next entry and deletes the one before, under the lock of the room.
CREATE TABLE taskyard.buckets (
    lane     integer NOT NULL,
    key      text COLLATE "C" NOT NULL,
    entry    bigint NOT NULL,                -- the highest counts
    full_at  bigint NOT NULL,
    opens_at bigint,                         -- when whoever waits is to be told; NULL: nobody does
    PRIMARY KEY (lane, key, entry)
);
CREATE INDEX buckets_opening ON taskyard.buckets (opens_at) WHERE opens_at IS NOT NULL;
CREATE INDEX buckets_full ON taskyard.buckets (full_at) WHERE opens_at IS NULL;
ALTER TABLE taskyard.buckets SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false,
    autovacuum_vacuum_cost_delay = 0);

-- Keys whose first waiter could not be woken, because somebody was changing it: to be looked at again.
CREATE TABLE taskyard.second_looks (key text COLLATE "C" PRIMARY KEY);
ALTER TABLE taskyard.second_looks SET (vacuum_truncate = false);

-- --- dependencies ---
-- What a task depends on, in the order given; by id too, for that is shown when the other is pruned.
CREATE TABLE taskyard.dependencies (
    no    bigint NOT NULL,
    place integer NOT NULL,
    on_no bigint NOT NULL,
    met   boolean NOT NULL DEFAULT false,    -- it has ended, and was counted
    on_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (no, place)
);
CREATE INDEX dependencies_on ON taskyard.dependencies (on_no);

-- One row for each task that depends on others. While something is left, its row in pending is due
-- at the end of time.
CREATE TABLE taskyard.waits (
    no        bigint PRIMARY KEY,
    waits_for integer NOT NULL
);

-- New dependents whose dependencies are still to be looked at: by the end of the transaction that
-- saves them, so that a caller's long one holds no row of others.
CREATE TABLE taskyard.unsettled (no bigint PRIMARY KEY, clock bigint NOT NULL, xid xid8 NOT NULL);
CREATE INDEX unsettled_xid ON taskyard.unsettled (xid);

-- --- pauses, checkpoints ---
CREATE TABLE taskyard.paused (
    no      bigint PRIMARY KEY,
    attempt integer NOT NULL,
    charged integer NOT NULL,
    losses  integer NOT NULL,
    reason  text NOT NULL,
    node    text
);
CREATE TABLE taskyard.checkpoints (no bigint PRIMARY KEY, checkpoint text NOT NULL);
INSERT INTO taskyard.meta (name, value) VALUES ('paused_until', '');

ALTER TABLE taskyard.paused SET (vacuum_truncate = false);
ALTER TABLE taskyard.checkpoints SET (vacuum_truncate = false);
ALTER TABLE taskyard.dependencies SET (vacuum_truncate = false);
ALTER TABLE taskyard.waits SET (vacuum_truncate = false);
ALTER TABLE taskyard.unsettled SET (vacuum_truncate = false);

-- --- nodes, periodic tasks, statistics ---
ALTER TABLE taskyard.nodes ADD COLUMN usage text;  -- JSON

CREATE TABLE taskyard.crons (
    name    text COLLATE "C" PRIMARY KEY,
    cron    text NOT NULL,                   -- JSON
    next_at bigint,
    last_at bigint
);

CREATE TABLE taskyard.figures (
    hour   bigint NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    lane   text COLLATE "C" NOT NULL,
    what   text COLLATE "C" NOT NULL,
    bucket integer NOT NULL,
    n      bigint NOT NULL,
    PRIMARY KEY (hour, kind, lane, what, bucket)
);

-- Functions whose arguments or answers are others now.
DROP FUNCTION IF EXISTS taskyard.key_room(text);
DROP FUNCTION IF EXISTS taskyard.wake(text[], bigint[]);
DROP FUNCTION IF EXISTS taskyard.passed_over(text[]);
DROP FUNCTION IF EXISTS taskyard.full_keys(text[]);
DROP FUNCTION IF EXISTS taskyard.set_key_rule(bigint, text, integer, text);
DROP FUNCTION IF EXISTS taskyard.end_attempts(bigint, bigint[], integer[], bigint[], text[], json, text[]);
DROP FUNCTION IF EXISTS taskyard.stretches(bigint);
DROP FUNCTION IF EXISTS taskyard.after_expiry(bigint, bigint[]);
DROP FUNCTION IF EXISTS taskyard.load(bigint[]);
DROP FUNCTION IF EXISTS taskyard.search_freely(bigint, bigint, bigint, integer, integer, taskyard.stretch[]);
DROP FUNCTION IF EXISTS taskyard.turn(bigint, bigint[], integer[], bigint[], text[], json, text[], bigint[], bigint, bigint, integer, integer);
DROP FUNCTION IF EXISTS taskyard.enqueue(bigint, bigint, integer, bigint, text[], text[], text[], text[], integer[], integer[], smallint[], integer[], bigint[], text[], bigint[], bigint[], bigint[], text[], text[], text[], text[], boolean);
DROP FUNCTION IF EXISTS taskyard.lane_numbers(text[]);
DROP FUNCTION IF EXISTS taskyard.where_is(text);
DROP FUNCTION IF EXISTS taskyard.unqueue(bigint);
DROP FUNCTION IF EXISTS taskyard.set_lane(bigint, text, boolean, integer, boolean, boolean, text, text);
DROP FUNCTION IF EXISTS taskyard.pause_yard(bigint, boolean, text);
DROP FUNCTION IF EXISTS taskyard.beat(bigint, bigint);
DROP FUNCTION IF EXISTS taskyard.import_settings(json, json, json);
