-- What an ordered lane needs before its queues can be read like those of others. Under the lock of the
-- room, which everybody takes who claims from such a lane or moves what is queued there.

-- prepare: these stretches, made ready to be read p_most deep, and the seats of those in fair lanes.
CREATE OR REPLACE FUNCTION taskyard.prepare(
    p_now bigint, p_lease bigint, p_parts taskyard.stretch[], p_most integer,
    OUT o_parts taskyard.stretch[], OUT o_seats taskyard.seat[])
LANGUAGE plpgsql AS $$
DECLARE
    v_lane  record;
    v_bound bigint;
BEGIN
    o_parts := p_parts;
    FOR v_lane IN
        SELECT p.lane, p.lane_order, p.ranked, array_agg(DISTINCT p.route) AS routes,
               bool_or(p.priority <> 0) AS strays
          FROM unnest(p_parts) AS p
         WHERE p.room > 0 AND (p.lane_order <> 'priority' OR p.ranked)
         GROUP BY p.lane, p.lane_order, p.ranked
    LOOP
        IF v_lane.strays THEN
            PERFORM taskyard.gather_strays(p_now, v_lane.lane);
        END IF;
        IF v_lane.lane_order = 'fair' THEN
            o_seats := o_seats || taskyard.fill_rounds(v_lane.lane, v_lane.routes, p_most);
        ELSIF v_lane.lane_order = 'fifo' THEN
            v_bound := taskyard.head_bound(p_now, p_lease, v_lane.lane, v_lane.routes, p_most);
            o_parts := ARRAY(
                SELECT ROW(p.lane, p.route, p.priority, p.floor, p.room, p.lane_order, p.ranked,
                           CASE WHEN p.lane = v_lane.lane THEN v_bound ELSE p.bound END)::taskyard.stretch
                  FROM unnest(o_parts) AS p);
        END IF;
    END LOOP;
END
$$;

-- gather_strays: tasks that were saved while the lane became ordered, and stand in its old order.
CREATE OR REPLACE FUNCTION taskyard.gather_strays(p_now bigint, p_lane integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_queued taskyard.entrant[];
BEGIN
    WITH gone AS (
        DELETE FROM taskyard.ready WHERE ctid = ANY (ARRAY(
            SELECT r.ctid
              FROM (SELECT DISTINCT q.route, q.priority FROM taskyard.queues AS q
                     WHERE q.lane = p_lane AND q.priority > 0) AS s
                   CROSS JOIN LATERAL (
                       SELECT a.ctid FROM taskyard.ready AS a
                        WHERE a.lane = p_lane AND a.route = s.route AND a.priority = s.priority
                          FOR UPDATE SKIP LOCKED) AS r))
        RETURNING *
    )
    SELECT array_agg(ROW(g.no, g.attempt, g.charged, g.losses, g.reason, g.node, NULL)::taskyard.entrant
                     ORDER BY g.seq)
      INTO v_queued FROM gone AS g;
    PERFORM taskyard.queue_up(p_now, v_queued, true);
END
$$;

-- head_bound: from which place on nothing of a first-in-first-out lane is for this node: where a task
-- stands of a route it does not serve, or one that somebody has locked. Late ones on the way are failed.
CREATE OR REPLACE FUNCTION taskyard.head_bound(
    p_now bigint, p_lease bigint, p_lane integer, p_routes integer[], p_most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_head record;
    v_keys text[];
BEGIN
    LOOP
        SELECT r.seq, r.place, r.late INTO v_head
          FROM (SELECT DISTINCT q.route FROM taskyard.queues AS q
                 WHERE q.lane = p_lane AND q.priority = 0
                   AND NOT EXISTS (SELECT 1 FROM taskyard.node_routes AS s
                                    WHERE s.lease = p_lease AND s.route = q.route)) AS other
               LEFT JOIN LATERAL (
                   SELECT f.safe FROM taskyard.floors AS f
                    WHERE f.lane = p_lane AND f.route = other.route AND f.priority = 0
                    ORDER BY f.pass DESC LIMIT 1) AS floor ON true
               CROSS JOIN LATERAL (
                   SELECT a.seq, a.ctid AS place, coalesce(a.deadline <= p_now, false) AS late
                     FROM taskyard.ready AS a
                    WHERE a.lane = p_lane AND a.route = other.route AND a.priority = 0
                      AND a.seq >= coalesce(floor.safe, 0)
                    ORDER BY a.seq LIMIT 1) AS r
         ORDER BY r.seq LIMIT 1;
        EXIT WHEN NOT FOUND OR NOT v_head.late;
        SELECT e.o_keys INTO v_keys FROM taskyard.expire_ready(p_now, ARRAY[v_head.place]) AS e WHERE e.o_count > 0;
        EXIT WHEN NOT FOUND;
        PERFORM taskyard.passed_over(p_now, v_keys);
    END LOOP;
    RETURN least(v_head.seq, (
        WITH mine AS MATERIALIZED (
            SELECT r.seq, r.place
              FROM unnest(p_routes) AS s (route)
                   LEFT JOIN LATERAL (
                       SELECT f.safe FROM taskyard.floors AS f
                        WHERE f.lane = p_lane AND f.route = s.route AND f.priority = 0
                        ORDER BY f.pass DESC LIMIT 1) AS floor ON true
                   CROSS JOIN LATERAL (
                       SELECT a.seq, a.ctid AS place FROM taskyard.ready AS a
                        WHERE a.lane = p_lane AND a.route = s.route AND a.priority = 0
                          AND a.seq >= coalesce(floor.safe, 0)
                        ORDER BY a.seq LIMIT p_most) AS r
        ), free AS MATERIALIZED (
            SELECT r.ctid AS place FROM taskyard.ready AS r
             WHERE r.ctid = ANY (ARRAY(SELECT m.place FROM mine AS m)) FOR UPDATE SKIP LOCKED
        )
        SELECT min(m.seq) FROM mine AS m
         WHERE NOT EXISTS (SELECT 1 FROM free AS f WHERE f.place = m.place)));
END
$$;

-- fill_rounds: the first p_most places of a fair lane belong to groups; let the first tasks of each group,
-- by priority and seq, have them. Those that give theirs up get the ranks they left. Answers the places
-- with who has them now. Without sorting where it can be helped: a group is then read along its own index,
-- as far as there are places.
CREATE OR REPLACE FUNCTION taskyard.fill_rounds(p_lane integer, p_routes integer[], p_most integer)
RETURNS taskyard.seat[]
LANGUAGE plpgsql
SET enable_sort = off AS $$
DECLARE
    v_seats taskyard.seat[];
BEGIN
    WITH front AS MATERIALIZED (
        SELECT x.place, x.grp, x.route, x.rank, x.seq, x.urgency
          FROM unnest(p_routes) AS s (route)
               CROSS JOIN LATERAL (
                   SELECT r.ctid AS place, r.grp, r.route, r.rank, r.seq, r.urgency FROM taskyard.ready AS r
                    WHERE r.lane = p_lane AND r.route = s.route AND r.rank IS NOT NULL
                    ORDER BY r.rank, r.seq LIMIT p_most) AS x
         ORDER BY x.rank, x.seq LIMIT p_most
    ), best AS MATERIALIZED (
        SELECT b.place, g.grp, b.route, b.rank, b.seq, b.urgency
          FROM (SELECT f.grp, count(*) AS places FROM front AS f GROUP BY f.grp) AS g
               CROSS JOIN LATERAL (
                   SELECT x.*
                     FROM unnest(p_routes) AS s (route)
                          CROSS JOIN LATERAL (
                              SELECT r.ctid AS place, r.route, r.rank, r.seq, r.urgency FROM taskyard.ready AS r
                               WHERE r.lane = p_lane AND r.grp = g.grp AND r.route = s.route
                               ORDER BY r.urgency, r.seq LIMIT g.places) AS x
                    ORDER BY x.urgency, x.seq LIMIT g.places) AS b
    ), concerned AS MATERIALIZED (
        -- Places in front are the first of their group, so the nth of them is for the nth of its tasks.
        SELECT c.*, row_number() OVER (PARTITION BY c.grp ORDER BY c.urgency, c.seq) AS turn,
               row_number() OVER (PARTITION BY c.grp ORDER BY c.rank, c.seq) AS nth
          FROM (SELECT * FROM front UNION SELECT * FROM best) AS c
    ), moved AS MATERIALIZED (
        SELECT c.place, o.rank
          FROM (SELECT * FROM concerned WHERE concerned.turn <> concerned.nth) AS c
               JOIN concerned AS o ON o.grp = c.grp AND o.nth = c.turn
         WHERE o.rank <> c.rank
    ), locked AS MATERIALIZED (
        SELECT r.ctid AS place FROM taskyard.ready AS r
         WHERE r.ctid = ANY (ARRAY(SELECT m.place FROM moved AS m)) FOR UPDATE SKIP LOCKED
    ), gone AS (
        -- All or none: who is being changed by another keeps its place meanwhile, and so do the others.
        DELETE FROM taskyard.ready
         WHERE ctid = ANY (ARRAY(SELECT k.place FROM locked AS k))
           AND (SELECT count(*) FROM locked) = (SELECT count(*) FROM moved)
        RETURNING ctid AS place, *
    ), put AS (
        INSERT INTO taskyard.ready (seq, no, lane, route, attempt, charged, losses, priority, special, reason,
                                    keys, dedup, deadline, node, rank, grp, urgency)
        SELECT g.seq, g.no, g.lane, g.route, g.attempt, g.charged, g.losses, g.priority, g.special, g.reason,
               g.keys, g.dedup, g.deadline, g.node, m.rank, g.grp, g.urgency
          FROM gone AS g JOIN moved AS m ON m.place = g.place
    )
    SELECT array_agg(ROW(p_lane, t.route, t.seq, f.rank, f.seq)::taskyard.seat)
      INTO v_seats
      FROM front AS f
           JOIN concerned AS c ON c.place = f.place
           JOIN concerned AS t ON t.grp = c.grp AND t.turn = c.nth;
    RETURN v_seats;
END
$$;
