-- search_freely: take tasks nothing but the node's room limits. Many do this at the same time and
-- pass over each other's rows. Where a lane's order holds a special task, only what comes before it
-- is taken; the same snapshot sees both, so nothing goes before a task it saw first.
CREATE OR REPLACE FUNCTION taskyard.search_freely(
    p_now bigint, p_lease bigint, p_number bigint, p_slots integer, p_ahead integer,
    p_parts taskyard.stretch[],
    OUT o_no bigint[], OUT o_id text[], OUT o_route integer[], OUT o_lane integer[], OUT o_attempt integer[],
    OUT o_charged integer[], OUT o_max_charged integer[], OUT o_timeout bigint[], OUT o_payload text[],
    OUT o_losses integer[], OUT o_run_at bigint[], OUT o_priority smallint[], OUT o_ahead bigint[],
    OUT o_more boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_want  integer := least(p_slots + p_ahead, 500);
    v_dedup text[];
    v_late  bigint[];
    v_cut   boolean;
    v_limit boolean;
BEGIN
    WITH part AS MATERIALIZED (
        -- They were found before the node was locked: a lane may have been paused or limited since.
        SELECT s.lane, s.route, s.priority, s.floor,
               CASE WHEN l.capacity IS NULL AND l.rate_interval IS NULL AND NOT l.ordered
                    THEN s.room ELSE coalesce(s.room, 1) END AS room
          FROM unnest(p_parts) AS s
               JOIN taskyard.lanes AS l
                 ON l.no = s.lane AND NOT (l.paused AND (l.paused_until IS NULL OR l.paused_until > p_now))
    ), bound AS MATERIALIZED (
        -- The first special task of the whole lane is the bound of each of its queues.
        SELECT DISTINCT ON (p.lane) p.lane, p.priority, f.seq
          FROM part AS p
               CROSS JOIN LATERAL (
                   SELECT r.seq FROM taskyard.ready AS r
                    WHERE r.special AND r.lane = p.lane AND r.route = p.route
                      AND r.priority = p.priority AND r.seq >= p.floor
                    ORDER BY r.seq LIMIT 1) AS f
         WHERE p.room IS NULL
         ORDER BY p.lane, p.priority, f.seq
    ), queue AS MATERIALIZED (
        SELECT p.lane, p.route, p.priority, p.floor,
               CASE WHEN p.priority = b.priority THEN b.seq ELSE 9223372036854775807 END AS bound
          FROM part AS p LEFT JOIN bound AS b ON b.lane = p.lane
         WHERE p.room IS NULL AND (b.seq IS NULL OR p.priority <= b.priority)
         ORDER BY p.lane, p.route, p.priority
    ), stream AS MATERIALIZED (
        SELECT s.lane, s.route, dense_rank() OVER (ORDER BY s.lane) - 1 AS lane_at
          FROM (SELECT DISTINCT q.lane, q.route FROM queue AS q) AS s
    ), turned AS MATERIALIZED (
        SELECT s.*, mod(s.lane_at - mod(p_number, m.lanes) + m.lanes, m.lanes) AS turn
          FROM stream AS s CROSS JOIN (SELECT max(lane_at) + 1 AS lanes FROM stream) AS m
    ), chosen AS MATERIALIZED (  -- else it is made anew for each stream
        SELECT c.lane, c.route
          FROM (SELECT t.lane, t.route, t.turn,
                       row_number() OVER (PARTITION BY t.lane ORDER BY r.priority, r.seq) AS rank
                  FROM turned AS t
                       CROSS JOIN LATERAL (
                           SELECT q.priority, x.seq
                             FROM queue AS q
                                  CROSS JOIN LATERAL (
                                      SELECT a.seq FROM taskyard.ready AS a
                                       WHERE a.lane = q.lane AND a.route = q.route
                                         AND a.priority = q.priority AND a.seq >= q.floor AND a.seq < q.bound
                                       ORDER BY a.seq LIMIT v_want) AS x
                            WHERE q.lane = t.lane AND q.route = t.route
                            LIMIT v_want) AS r) AS c
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
                   SELECT x.place
                     FROM queue AS q
                          CROSS JOIN LATERAL (
                              SELECT a.ctid AS place FROM taskyard.ready AS a
                               WHERE a.lane = q.lane AND a.route = q.route
                                 AND a.priority = q.priority AND a.seq >= q.floor AND a.seq < q.bound
                               ORDER BY a.seq LIMIT s.share
                                 FOR UPDATE SKIP LOCKED) AS x
                    WHERE q.lane = s.lane AND q.route = s.route
                    LIMIT s.share) AS r
    ), gone AS (
        DELETE FROM taskyard.ready WHERE ctid = ANY (ARRAY(SELECT l.place FROM locked AS l))
        RETURNING *
    ), taken AS MATERIALIZED (
        SELECT g.*, row_number() OVER (ORDER BY g.nth, g.turn) AS at
          FROM (SELECT x.*, row_number() OVER (PARTITION BY x.lane ORDER BY x.priority, x.seq) AS nth,
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
    SELECT array_agg(x.no), array_agg(x.id), array_agg(x.route), array_agg(x.lane), array_agg(x.attempt),
           array_agg(x.charged), array_agg(x.max_charged), array_agg(x.timeout), array_agg(x.payload),
           array_agg(x.losses), array_agg(x.run_at), array_agg(x.priority), array_agg(x.no) FILTER (WHERE x.at > p_slots),
           array_agg(x.dedup) FILTER (WHERE x.dedup IS NOT NULL),
           (SELECT array_agg(late.no) FROM late), EXISTS (SELECT 1 FROM bound),
           (SELECT bool_or(p.room > 0) FROM part AS p)
      INTO o_no, o_id, o_route, o_lane, o_attempt, o_charged, o_max_charged, o_timeout, o_payload,
           o_losses, o_run_at, o_priority, o_ahead, v_dedup, v_late, v_cut, v_limit
      FROM (SELECT t.no, d.id, t.route, t.lane, t.attempt + 1 AS attempt, t.charged, d.max_charged,
                   d.timeout, d.payload, t.losses, d.run_at, t.priority, t.at, t.dedup
              FROM taken AS t
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = t.no OFFSET 0) AS d
             ORDER BY t.at) AS x;
    PERFORM taskyard.after_expiry(p_now, v_late);
    PERFORM taskyard.free_started(v_dedup, o_no);
    -- Less than asked for although a special or limited task is there: the next claim looks at it
    -- under the lock.
    o_more := coalesce(cardinality(o_no), 0) < p_slots
        AND (v_cut OR coalesce(v_limit, false) OR v_late IS NOT NULL
             OR coalesce(cardinality(o_no), 0) = v_want);
END
$$;
