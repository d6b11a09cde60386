-- What keeps a yard steady while somebody holds a snapshot open for long (a dump, a report, a
-- forgotten transaction): no dead row is removed then, so whatever reads past dead rows gets slower
-- by the minute. These tables are read newest first and are never updated, so that the live row
-- is always the first.

-- Whoever is just saving tasks comes first: their queues must be known.
LOCK TABLE taskyard.tasks IN SHARE MODE;

-- A floor: nothing ready is left below it in its lane, route and priority, as far as was seen. Where
-- there is none, everything is looked at.
CREATE TABLE taskyard.floors (
    lane      integer NOT NULL,
    route     integer NOT NULL,
    priority  smallint NOT NULL,
    pass      bigint NOT NULL,               -- the highest counts
    raised_at bigint NOT NULL,
    safe      bigint NOT NULL,               -- the floor: what the pass before saw as the first
    seen      bigint NOT NULL,               -- the first of this pass
    looked_at bigint NOT NULL,               -- when somebody last looked below it
    cost      bigint NOT NULL                -- microseconds that look took
);
CREATE UNIQUE INDEX floors_newest ON taskyard.floors (lane, route, priority, pass DESC);

-- When somebody last looked below all floors.
CREATE TABLE taskyard.looks (at bigint PRIMARY KEY);

-- How many bodies run under a lease, and the last claim that took something: the same number gets
-- the same answer. Written under the lock of the node's row.
CREATE TABLE taskyard.loads (
    lease   bigint NOT NULL,
    entry   bigint NOT NULL,
    number  bigint NOT NULL,
    running integer NOT NULL,
    PRIMARY KEY (lease, entry)
);
INSERT INTO taskyard.loads (lease, entry, number, running)
SELECT n.lease, 1, coalesce((SELECT max(q.number) FROM taskyard.requests AS q WHERE q.lease = n.lease), 0),
       (SELECT count(*) FROM taskyard.running AS r WHERE r.lease = n.lease AND r.started_at IS NOT NULL)
  FROM taskyard.nodes AS n;
DROP TABLE taskyard.requests;

CREATE INDEX running_asked ON taskyard.running (lease) WHERE asked IS NOT NULL;

-- A queue: the tasks of one lane, route and priority, first come, first served. Which ones there are
-- is written down, so that no claim has to find out by reading past dead rows. Some stand here twice:
-- were they unique, whoever fills a new queue would wait for the open transaction of another who does.
CREATE TABLE taskyard.queues (
    route    integer NOT NULL,
    lane     integer NOT NULL,
    priority smallint NOT NULL
);
CREATE INDEX queues_route ON taskyard.queues (route, lane, priority);
INSERT INTO taskyard.queues (route, lane, priority)
SELECT DISTINCT t.route, t.lane, t.priority FROM taskyard.tasks AS t;

-- A queue as a claim looks at it: from its floor on, with what its lane has room for (NULL: no limit).
CREATE TYPE taskyard.stretch AS (
    lane     integer,
    route    integer,
    priority smallint,
    floor    bigint,
    room     integer
);

ALTER TABLE taskyard.floors SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE taskyard.looks SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE taskyard.loads SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false,
    autovacuum_vacuum_cost_delay = 0);

-- Functions whose arguments or answers are others now.
DROP FUNCTION IF EXISTS taskyard.turn(bigint, bigint[], integer[], text[], json, text[], bigint, bigint, integer, integer);
DROP FUNCTION IF EXISTS taskyard.streams(bigint);
DROP FUNCTION IF EXISTS taskyard.needs_lock(bigint, integer);
DROP FUNCTION IF EXISTS taskyard.search_freely(bigint, bigint, bigint, integer, integer);
DROP FUNCTION IF EXISTS taskyard.search_exactly(bigint, bigint, bigint, integer, integer);
DROP FUNCTION IF EXISTS taskyard.load(bigint[]);
DROP FUNCTION IF EXISTS taskyard.end_attempts(bigint, bigint[], integer[], text[], json, text[]);
DROP FUNCTION IF EXISTS taskyard.mark_started(bigint, bigint[], integer[]);
DROP FUNCTION IF EXISTS taskyard.report(bigint, integer, text);
DROP FUNCTION IF EXISTS taskyard.enqueue(bigint, bigint, integer, text[], text[], text[], text[], integer[], integer[], smallint[], integer[], bigint[], text[], bigint[], bigint[], bigint[], text[], text[], text[], text[], boolean);
