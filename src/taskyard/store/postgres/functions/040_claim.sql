-- stretches: the queues of this node that have something ready, in the order of lanes and priorities, each from
-- its first task on: whoever reads on from there need not pass once more what is dead above the floor. (In an
-- ordered lane others may yet be put before it.) A lane's room is counted over what runs, and is no more than its
-- rate has tokens. An ordered lane has room as if it were limited: it is looked at under the lock alone. p_hasty:
-- where all of them are limited, let it be 1 and not be counted.
CREATE OR REPLACE FUNCTION taskyard.stretches(
    p_now bigint, p_lease bigint, p_hasty boolean DEFAULT false) RETURNS taskyard.stretch[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_parts   taskyard.stretch[];
    v_limited boolean;  -- any of them
    v_all     boolean;
BEGIN
    SELECT array_agg(ROW(q.lane, q.route, q.priority, CASE WHEN l.ordered THEN coalesce(f.safe, 0) ELSE head.seq END,
                         CASE WHEN l.limited THEN 1 END, l.lane_order, l.ranked, NULL)::taskyard.stretch
                     ORDER BY q.lane, q.route, q.priority),
           bool_or(l.limited), bool_and(l.limited)
      INTO v_parts, v_limited, v_all
      FROM taskyard.node_routes AS s
           CROSS JOIN LATERAL (
               SELECT DISTINCT k.route, k.lane, k.priority FROM taskyard.queues AS k
                WHERE k.route = s.route) AS q
           CROSS JOIN LATERAL (
               SELECT a.lane_order, a.ranked, a.ordered,
                      a.capacity IS NOT NULL OR a.rate_interval IS NOT NULL OR a.ordered AS limited
                 FROM taskyard.lanes AS a
                WHERE a.no = q.lane AND NOT (a.paused AND (a.paused_until IS NULL OR a.paused_until > p_now))
               OFFSET 0) AS l
           LEFT JOIN LATERAL (
               SELECT o.safe FROM taskyard.floors AS o
                WHERE o.lane = q.lane AND o.route = q.route AND o.priority = q.priority
                ORDER BY o.pass DESC LIMIT 1) AS f ON true
           CROSS JOIN LATERAL (
               SELECT r.seq FROM taskyard.ready AS r
                WHERE r.lane = q.lane AND r.route = q.route
                  AND r.priority = q.priority AND r.seq >= coalesce(f.safe, 0)
                ORDER BY r.seq LIMIT 1) AS head
     WHERE s.lease = p_lease;
    RETURN CASE WHEN v_limited AND NOT (p_hasty AND v_all) THEN taskyard.with_room(p_now, v_parts)
                ELSE v_parts END;
END
$$;

-- runs_in: how many tasks of a lane run now.
CREATE OR REPLACE FUNCTION taskyard.runs_in(p_lane integer) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT count(*)
          FROM taskyard.nodes AS n
               CROSS JOIN LATERAL (
                   SELECT a.since FROM taskyard.loads AS a WHERE a.lease = n.lease
                    ORDER BY a.entry DESC LIMIT 1) AS l
               CROSS JOIN LATERAL (
                   SELECT 1 FROM taskyard.running AS r
                    WHERE r.lease = n.lease AND r.request >= l.since AND r.lane = p_lane OFFSET 0) AS run);
END
$$;

-- with_room: these queues, with what their lanes have room for now.
CREATE OR REPLACE FUNCTION taskyard.with_room(p_now bigint, p_parts taskyard.stretch[]) RETURNS taskyard.stretch[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        WITH room AS MATERIALIZED (
            SELECT c.no AS lane, least(
                       CASE WHEN c.capacity IS NOT NULL THEN c.capacity - taskyard.runs_in(c.no) END,
                       CASE WHEN c.rate_interval IS NOT NULL THEN taskyard.tokens(
                           c.rate_interval, c.rate_burst, taskyard.full_at(c.no, ''), p_now) END,
                       1000000) AS room
              FROM taskyard.lanes AS c
             WHERE c.no = ANY (ARRAY(SELECT DISTINCT p.lane FROM unnest(p_parts) AS p))
               AND (c.capacity IS NOT NULL OR c.rate_interval IS NOT NULL OR c.ordered)
        )
        SELECT array_agg(ROW(p.lane, p.route, p.priority, p.floor, m.room, p.lane_order, p.ranked,
                             NULL)::taskyard.stretch
                         ORDER BY p.at)
          FROM unnest(p_parts) WITH ORDINALITY
                   AS p (lane, route, priority, floor, room, lane_order, ranked, bound, at)
               LEFT JOIN room AS m ON m.lane = p.lane);
END
$$;

-- needs_lock: whether the first p_want tasks a node could take are limited: in a lane with a
-- capacity, with keys, or to be looked at one by one. If not, many may claim at the same time.
CREATE OR REPLACE FUNCTION taskyard.needs_lock(p_parts taskyard.stretch[], p_want integer) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM unnest(p_parts) AS p WHERE p.room > 0) OR EXISTS (
        SELECT 1
          FROM (SELECT DISTINCT ON (p.lane, p.route) p.lane, p.route, p.priority, f.seq
                  FROM unnest(p_parts) AS p
                       CROSS JOIN LATERAL (
                           SELECT r.seq FROM taskyard.ready AS r
                            WHERE r.special AND r.lane = p.lane AND r.route = p.route
                              AND r.priority = p.priority AND r.seq >= p.floor
                            ORDER BY r.seq LIMIT 1) AS f
                 WHERE p.room IS NULL
                 ORDER BY p.lane, p.route, p.priority) AS first
         WHERE p_want > (
             SELECT count(*)
               FROM (SELECT 1
                       FROM unnest(p_parts) AS p
                            CROSS JOIN LATERAL (
                                SELECT 1 FROM taskyard.ready AS r
                                 WHERE r.lane = p.lane AND r.route = p.route
                                   AND r.priority = p.priority AND r.seq >= p.floor
                                   AND r.seq < CASE WHEN p.priority < first.priority
                                                    THEN 9223372036854775807 ELSE first.seq END
                                 LIMIT p_want) AS r
                      WHERE p.lane = first.lane AND p.route = first.route AND p.priority <= first.priority
                      LIMIT p_want) AS before));
END
$$;

-- give_back_room: whether one of these parts is in a lane whose capacity is full, and one of these tasks runs
-- there: the room it leaves can then be taken, under the lock.
CREATE OR REPLACE FUNCTION taskyard.give_back_room(
    p_parts taskyard.stretch[], p_nos bigint[], p_others json) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_full integer[];
BEGIN
    SELECT array_agg(DISTINCT p.lane) INTO v_full
      FROM unnest(p_parts) AS p
     WHERE p.room <= 0
       AND EXISTS (SELECT 1 FROM taskyard.lanes AS l WHERE l.no = p.lane AND l.capacity IS NOT NULL);
    RETURN v_full IS NOT NULL AND EXISTS (
        SELECT 1
          FROM (SELECT u.no FROM unnest(p_nos) AS u (no)
                 UNION ALL SELECT o.no FROM json_to_recordset(p_others) AS o (no bigint)) AS v
               CROSS JOIN LATERAL (SELECT a.lane FROM taskyard.running AS a WHERE a.no = v.no OFFSET 0) AS r
         WHERE r.lane = ANY (v_full));
END
$$;

-- expire_ready: fail these ready tasks, whose deadline has passed; answers the keys they carried.
CREATE OR REPLACE FUNCTION taskyard.expire_ready(p_now bigint, p_places tid[], OUT o_keys text[], OUT o_count bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_nos bigint[];
BEGIN
    WITH locked AS MATERIALIZED (
        SELECT r.ctid AS place FROM taskyard.ready AS r WHERE r.ctid = ANY (p_places) FOR UPDATE SKIP LOCKED
    ), late AS (
        DELETE FROM taskyard.ready WHERE ctid = ANY (ARRAY(SELECT l.place FROM locked AS l)) RETURNING *
    ), kept AS (
        INSERT INTO taskyard.done (no, ended_at, attempt, charged, losses, state, reason, node)
        SELECT l.no, p_now, l.attempt, l.charged, l.losses, 'failed', 'expired', l.node FROM late AS l
    )
    SELECT array_agg(l.no), count(*),
           (SELECT array_agg(k.key) FROM late AS c CROSS JOIN LATERAL unnest(c.keys) AS k (key))
      INTO v_nos, o_count, o_keys
      FROM late AS l;
    PERFORM taskyard.after_expiry(p_now, v_nos);
END
$$;

-- after_expiry: give up the dedup keys of these, write down what happened, and tell who depends on them.
CREATE OR REPLACE FUNCTION taskyard.after_expiry(p_now bigint, p_nos bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_nos IS NULL THEN
        RETURN;
    END IF;
    PERFORM taskyard.free_dedup(p_nos);
    INSERT INTO taskyard.audit (at, actor, action, subject, detail)
    SELECT p_now, 'system', 'expired', 'task:' || t.id, 'deadline passed'
      FROM taskyard.tasks AS t WHERE t.no = ANY (p_nos) ORDER BY t.no;
    PERFORM taskyard.tell_dependents(p_now, p_nos);
END
$$;

-- free_started: dedup keys that were to be kept until the start of these tasks are free.
CREATE OR REPLACE FUNCTION taskyard.free_started(p_dedup text[], p_nos bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_dedup IS NOT NULL THEN
        DELETE FROM taskyard.dedup WHERE key = ANY (p_dedup) AND until = 'start' AND no = ANY (p_nos);
    END IF;
END
$$;

-- load: what their worker needs to run these, the queue they stood in, and the origins (domain/trace.py) of
-- those that carry a trace.
CREATE OR REPLACE FUNCTION taskyard.load(
    p_nos bigint[],
    OUT o_no bigint[], OUT o_id text[], OUT o_route integer[], OUT o_lane integer[], OUT o_attempt integer[],
    OUT o_charged integer[], OUT o_max_charged integer[], OUT o_timeout bigint[], OUT o_payload text[],
    OUT o_losses integer[], OUT o_run_at bigint[], OUT o_priority smallint[], OUT o_origins json)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(x.no), array_agg(x.id), array_agg(x.route), array_agg(x.lane), array_agg(x.attempt),
           array_agg(x.charged), array_agg(x.max_charged), array_agg(x.timeout), array_agg(x.payload),
           array_agg(x.losses), array_agg(x.run_at), array_agg(x.priority),
           json_object_agg(x.no, json_build_array(x.trace, x.run_at <= x.created_at))
               FILTER (WHERE x.trace IS NOT NULL)
      INTO o_no, o_id, o_route, o_lane, o_attempt, o_charged, o_max_charged, o_timeout, o_payload, o_losses,
           o_run_at, o_priority, o_origins
      FROM (SELECT v.no, t.id, t.route, t.lane, r.attempt, r.charged, t.max_charged, t.timeout, t.payload,
                   r.losses, t.run_at, t.priority, t.trace, t.created_at
              FROM (SELECT unnest(p_nos) AS no) AS v  -- in order, and so what comes of it
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.running AS a WHERE a.no = v.no OFFSET 0) AS r
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = v.no OFFSET 0) AS t) AS x;
    IF EXISTS (SELECT 1 FROM taskyard.lanes AS l WHERE l.no = ANY (o_lane) AND l.ordered) THEN
        o_priority := ARRAY(
            SELECT CASE WHEN l.ordered THEN 0 ELSE v.priority END
              FROM (SELECT unnest(o_lane) AS lane, unnest(o_priority) AS priority) AS v
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.lanes AS a WHERE a.no = v.lane OFFSET 0) AS l);
    END IF;
END
$$;

-- checkpoints_of: what earlier attempts of these have left, in this order; NULL if none has.
CREATE OR REPLACE FUNCTION taskyard.checkpoints_of(p_nos bigint[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_nos IS NULL OR NOT EXISTS (SELECT 1 FROM taskyard.checkpoints) THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT array_agg((SELECT c.checkpoint FROM taskyard.checkpoints AS c WHERE c.no = v.no) ORDER BY v.at)
          FROM unnest(p_nos) WITH ORDINALITY AS v (no, at));
END
$$;
