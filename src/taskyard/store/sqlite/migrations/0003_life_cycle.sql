-- Orders, rates, dependencies, checkpoints, periodic tasks and figures.

DROP INDEX taskyard_ready;
DROP INDEX taskyard_parked;
DROP INDEX taskyard_due;

ALTER TABLE taskyard_tasks DROP COLUMN rota;
-- The place of a queued task in its lane is (rank, seq).
ALTER TABLE taskyard_tasks ADD COLUMN rank INTEGER NOT NULL DEFAULT 0;
-- The group in whose rotation it waits; NULL unless its lane is fair.
ALTER TABLE taskyard_tasks ADD COLUMN rotation TEXT;
-- How many of the tasks it depends on have not ended.
ALTER TABLE taskyard_tasks ADD COLUMN waits_for INTEGER NOT NULL DEFAULT 0;
-- 'run', or NULL to be cancelled when one of them ends badly.
ALTER TABLE taskyard_tasks ADD COLUMN on_failure TEXT;
-- 1: another task has named it as one it depends on.
ALTER TABLE taskyard_tasks ADD COLUMN awaited INTEGER;
UPDATE taskyard_tasks SET rank = priority WHERE ended_at IS NULL;

-- What may be claimed, in the order of each lane. Parked tasks are not in it, so a backlog behind
-- one held key is never scanned.
CREATE INDEX taskyard_ready ON taskyard_tasks (lane, route, rank, seq)
    WHERE state = 'queued' AND parked_on IS NULL;
CREATE INDEX taskyard_parked ON taskyard_tasks (parked_on, lane, route, rank, seq)
    WHERE parked_on IS NOT NULL;
CREATE INDEX taskyard_due ON taskyard_tasks (run_at) WHERE state = 'pending' AND waits_for = 0;
-- With the ready ones, what waits in a lane; a task that is claimed at once is in neither.
CREATE INDEX taskyard_parked_lane ON taskyard_tasks (lane) WHERE parked_on IS NOT NULL;
CREATE INDEX taskyard_pending_lane ON taskyard_tasks (lane) WHERE state = 'pending';
-- Of a fair lane: the last round of each group, and its tasks in their own order.
CREATE INDEX taskyard_rounds ON taskyard_tasks (lane, rotation, rank)
    WHERE rotation IS NOT NULL AND state = 'queued';
CREATE INDEX taskyard_groups ON taskyard_tasks (lane, rotation, route, priority, seq)
    WHERE rotation IS NOT NULL AND state = 'queued' AND parked_on IS NULL;

ALTER TABLE taskyard_lanes ADD COLUMN ageing REAL;           -- seconds
ALTER TABLE taskyard_lanes ADD COLUMN max_depth INTEGER;
ALTER TABLE taskyard_lanes ADD COLUMN paused_until INTEGER;
ALTER TABLE taskyard_lanes ADD COLUMN rate TEXT;             -- JSON
ALTER TABLE taskyard_lanes ADD COLUMN full_at INTEGER;       -- its bucket; NULL: nothing was taken
ALTER TABLE taskyard_lanes ADD COLUMN opens_at INTEGER;      -- when its workers are to be told
-- The lanes that a new task must be looked at for.
CREATE INDEX taskyard_particular_lanes ON taskyard_lanes (no)
    WHERE lane_order <> 'priority' OR ageing IS NOT NULL OR max_depth IS NOT NULL;
CREATE INDEX taskyard_lanes_paused_until ON taskyard_lanes (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX taskyard_lanes_opening ON taskyard_lanes (opens_at) WHERE opens_at IS NOT NULL;
INSERT INTO taskyard_meta (name, value) VALUES ('paused_until', NULL);

ALTER TABLE taskyard_key_rules ADD COLUMN rate TEXT;         -- JSON
-- The buckets of keys that have a rate, while they are not full.
CREATE TABLE taskyard_buckets (
    key      TEXT PRIMARY KEY,
    full_at  INTEGER NOT NULL,
    opens_at INTEGER                        -- when those who wait for it are to be looked at
) WITHOUT ROWID;
CREATE INDEX taskyard_buckets_full ON taskyard_buckets (full_at);
CREATE INDEX taskyard_buckets_opening ON taskyard_buckets (opens_at) WHERE opens_at IS NOT NULL;

-- What a task depends on, in the order given. The id, because it is shown when that task is pruned.
CREATE TABLE taskyard_dependencies (
    no    INTEGER NOT NULL,
    place INTEGER NOT NULL,
    id    TEXT NOT NULL,
    unmet INTEGER NOT NULL,                 -- 1 until it has ended
    PRIMARY KEY (no, place)
) WITHOUT ROWID;
CREATE INDEX taskyard_dependents ON taskyard_dependencies (id);

CREATE TABLE taskyard_checkpoints (no INTEGER PRIMARY KEY, checkpoint TEXT NOT NULL);

ALTER TABLE taskyard_nodes ADD COLUMN usage TEXT;            -- JSON

CREATE TABLE taskyard_crons (
    name    TEXT PRIMARY KEY,
    cron    TEXT NOT NULL,                  -- JSON
    next_at INTEGER,
    last_at INTEGER
) WITHOUT ROWID;

CREATE TABLE taskyard_figures (
    hour   INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    lane   TEXT NOT NULL,
    what   TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (hour, kind, lane, what, bucket)
) WITHOUT ROWID;
