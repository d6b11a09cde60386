-- search_freely: take tasks nothing but the node's room limits. Many do this at the same time and
-- pass over each other's rows. Where a lane's order holds a special task, only what comes before it
-- is taken; the same snapshot sees both, so nothing goes before a task it saw first.
CREATE OR REPLACE FUNCTION taskyard.search_freely(
    p_now bigint, p_lease bigint, p_number bigint, p_slots integer, p_ahead integer,
    OUT o_no bigint[], OUT o_id text[], OUT o_kind text[], OUT o_lane text[], OUT o_attempt integer[],
    OUT o_charged integer[], OUT o_max_charged integer[], OUT o_timeout double precision[],
    OUT o_payload text[], OUT o_keyed boolean[], OUT o_ahead bigint[], OUT o_more boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_want  integer := least(p_slots + p_ahead, 500);
    v_dedup text[];
    v_late  bigint[];
    v_cut   boolean;
    v_limit boolean;
BEGIN
    WITH open AS MATERIALIZED (
        SELECT s.lane, s.route, s.room,
               (SELECT r.priority FROM taskyard.ready AS r
                 WHERE r.special AND r.lane = s.lane AND r.route = s.route AND r.rota = ''
                 ORDER BY r.priority, r.seq LIMIT 1) AS special_priority,
               (SELECT r.seq FROM taskyard.ready AS r
                 WHERE r.special AND r.lane = s.lane AND r.route = s.route AND r.rota = ''
                 ORDER BY r.priority, r.seq LIMIT 1) AS special_seq
          FROM taskyard.streams(p_lease) AS s
    ), bounded AS MATERIALIZED (
        -- The first special task of the whole lane is the bound of each of its routes.
        SELECT o.lane, o.route,
               dense_rank() OVER (ORDER BY o.lane) - 1 AS lane_at,
               coalesce(b.special_priority, 32767::smallint) AS bound_priority,
               coalesce(b.special_seq, 9223372036854775807) AS bound_seq,
               b.special_seq IS NOT NULL AS cut
          FROM open AS o
               LEFT JOIN LATERAL (
                   SELECT p.special_priority, p.special_seq FROM open AS p
                    WHERE p.lane = o.lane AND p.special_seq IS NOT NULL
                    ORDER BY p.special_priority, p.special_seq LIMIT 1) AS b ON true
         WHERE o.room IS NULL
    ), turned AS MATERIALIZED (
        SELECT b.*, mod(b.lane_at - mod(p_number, m.lanes) + m.lanes, m.lanes) AS turn
          FROM bounded AS b CROSS JOIN (SELECT max(lane_at) + 1 AS lanes FROM bounded) AS m
    ), chosen AS (
        SELECT c.lane, c.route
          FROM (SELECT t.lane, t.route, t.turn,
                       row_number() OVER (PARTITION BY t.lane ORDER BY r.priority, r.seq) AS rank
                  FROM turned AS t
                       CROSS JOIN LATERAL (
                           SELECT q.priority, q.seq FROM taskyard.ready AS q
                            WHERE q.lane = t.lane AND q.route = t.route AND q.rota = ''
                              AND (q.priority, q.seq) < (t.bound_priority, t.bound_seq)
                            ORDER BY q.priority, q.seq LIMIT v_want) AS r) AS c
         ORDER BY c.rank, c.turn LIMIT v_want
    ), shares AS MATERIALIZED (
        -- With one stream there is nothing to share, so nothing is looked at twice.
        SELECT t.*,
               CASE WHEN (SELECT count(*) FROM turned) = 1 THEN v_want
                    ELSE (SELECT count(*) FROM chosen AS c WHERE c.lane = t.lane AND c.route = t.route)
               END AS share
          FROM turned AS t
    ), locked AS MATERIALIZED (
        SELECT r.place, s.turn
          FROM shares AS s
               CROSS JOIN LATERAL (
                   SELECT q.ctid AS place FROM taskyard.ready AS q
                    WHERE q.lane = s.lane AND q.route = s.route AND q.rota = ''
                      AND (q.priority, q.seq) < (s.bound_priority, s.bound_seq)
                    ORDER BY q.priority, q.seq LIMIT s.share
                      FOR UPDATE SKIP LOCKED) AS r
    ), gone AS (
        DELETE FROM taskyard.ready WHERE ctid = ANY (ARRAY(SELECT l.place FROM locked AS l))
        RETURNING *
    ), taken AS MATERIALIZED (
        SELECT g.*, row_number() OVER (ORDER BY g.rank, g.turn) AS at
          FROM (SELECT x.*, row_number() OVER (PARTITION BY x.lane ORDER BY x.priority, x.seq) AS rank,
                       (SELECT t.turn FROM turned AS t WHERE t.lane = x.lane LIMIT 1) AS turn
                  FROM gone AS x WHERE NOT coalesce(x.deadline <= p_now, false)) AS g
    ), started AS (
        INSERT INTO taskyard.running (no, lease, request, started_at, attempt, lane, charged, losses, dedup)
        SELECT t.no, p_lease, p_number, CASE WHEN t.at <= p_slots THEN p_now END, t.attempt + 1, t.lane,
               t.charged, t.losses, t.dedup
          FROM taken AS t
    ), late AS (
        INSERT INTO taskyard.done (no, ended_at, attempt, charged, losses, state, reason, node)
        SELECT g.no, p_now, g.attempt, g.charged, g.losses, 'failed', 'expired', g.node
          FROM gone AS g WHERE g.deadline <= p_now
        RETURNING no
    )
    SELECT array_agg(x.no), array_agg(x.id), array_agg(x.kind), array_agg(x.lane), array_agg(x.attempt),
           array_agg(x.charged), array_agg(x.max_charged), array_agg(x.timeout), array_agg(x.payload),
           array_agg(false), array_agg(x.no) FILTER (WHERE x.at > p_slots),
           array_agg(x.dedup) FILTER (WHERE x.dedup IS NOT NULL),
           (SELECT array_agg(late.no) FROM late), (SELECT bool_or(b.cut) FROM bounded AS b),
           (SELECT bool_or(o.room > 0) FROM open AS o)
      INTO o_no, o_id, o_kind, o_lane, o_attempt, o_charged, o_max_charged, o_timeout, o_payload, o_keyed,
           o_ahead, v_dedup, v_late, v_cut, v_limit
      FROM (SELECT t.no, d.id, k.kind, l.name AS lane, t.attempt + 1 AS attempt, t.charged, d.max_charged,
                   d.timeout / 1e6::double precision AS timeout, d.payload, t.at, t.dedup
              FROM taken AS t
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = t.no OFFSET 0) AS d
                   CROSS JOIN LATERAL (SELECT a.kind FROM taskyard.routes AS a WHERE a.no = t.route OFFSET 0) AS k
                   CROSS JOIN LATERAL (SELECT a.name FROM taskyard.lanes AS a WHERE a.no = t.lane OFFSET 0) AS l
             ORDER BY t.at) AS x;
    PERFORM taskyard.after_expiry(p_now, v_late);
    PERFORM taskyard.free_started(v_dedup, o_no);
    -- Less than asked for although a special or limited task is there: the next claim looks at it
    -- under the lock.
    o_more := coalesce(cardinality(o_no), 0) < p_slots
        AND (coalesce(v_cut, false) OR coalesce(v_limit, false) OR v_late IS NOT NULL
             OR coalesce(cardinality(o_no), 0) = v_want);
END
$$;
