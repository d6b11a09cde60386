-- streams: the (lane, route) pairs with something ready that this node serves, and how much their
-- lanes have room for (NULL: no limit). The scan jumps from head to head: an index seek a pair,
-- however many tasks are ready. A lane's room is counted over what runs.
CREATE OR REPLACE FUNCTION taskyard.streams(p_lease bigint)
RETURNS TABLE (lane integer, route integer, room integer)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE head AS (
        (SELECT r.lane, r.route FROM taskyard.ready AS r
          ORDER BY r.lane, r.route, r.rota, r.priority, r.seq LIMIT 1)
        UNION ALL
        SELECT n.lane, n.route
          FROM head AS h
               CROSS JOIN LATERAL (
                   SELECT r.lane, r.route FROM taskyard.ready AS r
                    WHERE (r.lane, r.route) > (h.lane, h.route)
                    ORDER BY r.lane, r.route, r.rota, r.priority, r.seq LIMIT 1) AS n
    )
    SELECT h.lane, h.route,
           CASE WHEN l.capacity IS NOT NULL THEN l.capacity - (
               SELECT count(*) FROM taskyard.nodes AS n
                      CROSS JOIN LATERAL (
                          SELECT 1 FROM taskyard.running AS r
                           WHERE r.lease = n.lease AND r.lane = h.lane OFFSET 0) AS run)::integer END
      FROM head AS h
           JOIN taskyard.node_routes AS s ON s.lease = p_lease AND s.route = h.route
           JOIN taskyard.lanes AS l ON l.no = h.lane AND NOT l.paused
$$;

-- needs_lock: whether the first p_want tasks a node could take are limited: in a lane with a
-- capacity, with keys, or to be looked at one by one. If not, many may claim at the same time.
CREATE OR REPLACE FUNCTION taskyard.needs_lock(p_lease bigint, p_want integer) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT EXISTS (
            SELECT 1 FROM taskyard.streams(p_lease) AS s
             WHERE s.room > 0
                OR s.room IS NULL AND EXISTS (
                    SELECT 1
                      FROM (SELECT r.priority, r.seq FROM taskyard.ready AS r
                             WHERE r.special AND r.lane = s.lane AND r.route = s.route AND r.rota = ''
                             ORDER BY r.priority, r.seq LIMIT 1) AS first
                     WHERE p_want > (
                         SELECT count(*)
                           FROM (SELECT 1 FROM taskyard.ready AS r
                                  WHERE r.lane = s.lane AND r.route = s.route AND r.rota = ''
                                    AND (r.priority, r.seq) < (first.priority, first.seq)
                                  ORDER BY r.priority, r.seq LIMIT p_want) AS before))));
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

-- after_expiry: give up the dedup keys of these, and write down what happened.
CREATE OR REPLACE FUNCTION taskyard.after_expiry(p_now bigint, p_nos bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_nos IS NULL THEN
        RETURN;
    END IF;
    WITH ended AS (
        SELECT t.id, t.dedup, t.no FROM taskyard.tasks AS t WHERE t.no = ANY (p_nos)
    ), freed AS (
        DELETE FROM taskyard.dedup
         WHERE key = ANY (ARRAY(SELECT e.dedup FROM ended AS e WHERE e.dedup IS NOT NULL))
           AND no = ANY (p_nos)
    )
    INSERT INTO taskyard.audit (at, actor, action, subject, detail)
    SELECT p_now, 'system', 'expired', 'task:' || e.id, 'deadline passed' FROM ended AS e ORDER BY e.no;
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

-- load: what their worker needs to run these.
CREATE OR REPLACE FUNCTION taskyard.load(
    p_nos bigint[],
    OUT o_no bigint[], OUT o_id text[], OUT o_kind text[], OUT o_lane text[], OUT o_attempt integer[],
    OUT o_charged integer[], OUT o_max_charged integer[], OUT o_timeout double precision[],
    OUT o_payload text[], OUT o_keyed boolean[])
LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(x.no), array_agg(x.id), array_agg(x.kind), array_agg(x.lane), array_agg(x.attempt),
           array_agg(x.charged), array_agg(x.max_charged), array_agg(x.timeout), array_agg(x.payload),
           array_agg(x.keyed)
      INTO o_no, o_id, o_kind, o_lane, o_attempt, o_charged, o_max_charged, o_timeout, o_payload, o_keyed
      FROM (SELECT v.no, t.id, k.kind, l.name AS lane, r.attempt, r.charged, t.max_charged,
                   t.timeout / 1e6::double precision AS timeout, t.payload, t.keys IS NOT NULL AS keyed
              FROM unnest(p_nos) WITH ORDINALITY AS v (no, at)
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.running AS a WHERE a.no = v.no OFFSET 0) AS r
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = v.no OFFSET 0) AS t
                   CROSS JOIN LATERAL (SELECT a.kind FROM taskyard.routes AS a WHERE a.no = t.route OFFSET 0) AS k
                   CROSS JOIN LATERAL (SELECT a.name FROM taskyard.lanes AS a WHERE a.no = t.lane OFFSET 0) AS l
             ORDER BY v.at) AS x;
END
$$;
