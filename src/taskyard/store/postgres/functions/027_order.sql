-- The place of a task in an ordered lane (domain/order.py). It stands in the queue of priority 0 of its
-- lane and route, by its seq if the lane is first in, first out, else by its rank.

-- present_round: the lowest rank of any ready task of a lane.
CREATE OR REPLACE FUNCTION taskyard.present_round(p_lane integer) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT min(f.rank)
          FROM (SELECT DISTINCT q.route FROM taskyard.queues AS q WHERE q.lane = p_lane AND q.priority = 0) AS s
               CROSS JOIN LATERAL (
                   SELECT r.rank FROM taskyard.ready AS r
                    WHERE r.lane = p_lane AND r.route = s.route AND r.rank IS NOT NULL
                    ORDER BY r.rank, r.seq LIMIT 1) AS f);
END
$$;

-- last_round: the highest rank of any queued task of a group, ready or parked.
CREATE OR REPLACE FUNCTION taskyard.last_round(p_lane integer, p_group text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN greatest(
        (SELECT r.rank FROM taskyard.ready AS r
          WHERE r.lane = p_lane AND r.grp = p_group ORDER BY r.rank DESC LIMIT 1),
        (SELECT w.rank FROM taskyard.parked AS w
          WHERE w.lane = p_lane AND w.grp = p_group ORDER BY w.rank DESC LIMIT 1));
END
$$;

-- queue_up: make these tasks ready, in this order, each at its place. p_below: their places may be ones
-- that were passed already. Rows of tasks are read here, after whoever calls has locked where they stood.
CREATE OR REPLACE FUNCTION taskyard.queue_up(
    p_now bigint, p_entrants taskyard.entrant[], p_below boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lanes      integer[];
    v_routes     integer[];
    v_priorities smallint[];
    v_seqs       bigint[];
BEGIN
    IF p_entrants IS NULL THEN
        RETURN;
    END IF;
    PERFORM taskyard.make_queues(array_agg(q.route), array_agg(q.lane), array_agg(q.priority))
       FROM (SELECT DISTINCT t.route, t.lane,
                    (CASE WHEN l.ordered THEN 0 ELSE t.priority END)::smallint AS priority
               FROM unnest(p_entrants) AS e
                    CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = e.no OFFSET 0) AS t
                    CROSS JOIN LATERAL (SELECT * FROM taskyard.lanes AS a WHERE a.no = t.lane OFFSET 0) AS l) AS q;
    WITH entering AS MATERIALIZED (
        SELECT e.no, e.attempt, e.charged, e.losses, e.reason, e.node, e.rank, e.at, t.lane, t.route, t.seq,
               t.priority, t.keys, t.dedup, t.deadline, l.ordered, l.ranked, l.ageing,
               CASE WHEN l.lane_order = 'fair' THEN coalesce(t.grp, '') END AS grp
          FROM unnest(p_entrants) WITH ORDINALITY
                   AS e (no, attempt, charged, losses, reason, node, rank, at)
               CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = e.no OFFSET 0) AS t
               CROSS JOIN LATERAL (SELECT * FROM taskyard.lanes AS a WHERE a.no = t.lane OFFSET 0) AS l
    ), rounds AS MATERIALIZED (
        SELECT g.lane, g.grp, greatest(coalesce(p.present, 0), taskyard.last_round(g.lane, g.grp) + 1) AS next
          FROM (SELECT DISTINCT e.lane, e.grp FROM entering AS e WHERE e.grp IS NOT NULL AND e.rank IS NULL) AS g
               JOIN (SELECT f.lane, taskyard.present_round(f.lane) AS present
                       FROM (SELECT DISTINCT e.lane FROM entering AS e
                              WHERE e.grp IS NOT NULL AND e.rank IS NULL) AS f) AS p ON p.lane = g.lane
    ), queued AS (
        INSERT INTO taskyard.ready (seq, no, lane, route, attempt, charged, losses, priority, special, reason,
                                    keys, dedup, deadline, node, rank, grp, urgency)
        SELECT e.seq, e.no, e.lane, e.route, e.attempt, e.charged, e.losses,
               CASE WHEN e.ordered THEN 0 ELSE e.priority END,
               e.keys IS NOT NULL OR e.reason = 'rescued', e.reason, e.keys, e.dedup, e.deadline, e.node,
               CASE WHEN NOT e.ranked THEN NULL
                    WHEN e.rank IS NOT NULL THEN e.rank
                    WHEN e.grp IS NULL THEN p_now + e.priority * e.ageing
                    ELSE (SELECT r.next FROM rounds AS r WHERE r.lane = e.lane AND r.grp = e.grp)
                         + row_number() OVER (PARTITION BY e.lane, e.grp, e.rank IS NULL ORDER BY e.at) - 1 END,
               e.grp, CASE WHEN e.grp IS NOT NULL THEN e.priority END
          FROM entering AS e
        RETURNING lane, route, priority, seq, rank
    )
    SELECT array_agg(q.lane), array_agg(q.route), array_agg(q.priority), array_agg(q.seq)
      INTO v_lanes, v_routes, v_priorities, v_seqs
      FROM queued AS q WHERE q.rank IS NULL;
    IF p_below THEN
        PERFORM taskyard.reopen(v_lanes, v_routes, v_priorities, v_seqs);
    END IF;
END
$$;

-- reorder: give every queued task of a lane its place in the order it has now. All are looked at again,
-- for who was parked may now come before those who are not. What runs gets a place too, for the case
-- that it is given back. Needs the lock of the room; p_ranked: the lane had ranks before.
CREATE OR REPLACE FUNCTION taskyard.reorder(p_now bigint, p_lane integer, p_ranked boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_queued taskyard.entrant[];
    v_limit  text := taskyard.wait_at_most('200ms');
BEGIN
    WITH gone AS (
        DELETE FROM taskyard.ready AS r WHERE r.lane = p_lane
        RETURNING r.no, r.attempt, r.charged, r.losses, r.reason, r.node, r.priority, r.rank, r.seq
    ), unparked AS (
        DELETE FROM taskyard.parked AS w WHERE w.lane = p_lane AND w.no > 0
        RETURNING w.no, w.attempt, w.charged, w.losses, w.reason, w.node, w.priority, w.rank, w.seq
    )
    SELECT array_agg(ROW(g.no, g.attempt, g.charged, g.losses, g.reason, g.node, NULL)::taskyard.entrant
                     ORDER BY g.priority, CASE WHEN p_ranked THEN g.rank END, g.seq)
      INTO v_queued
      FROM (SELECT * FROM gone UNION ALL SELECT * FROM unparked) AS g;
    PERFORM taskyard.wait_at_most(v_limit);
    UPDATE taskyard.running AS r
       SET rank = CASE WHEN NOT l.ranked THEN NULL WHEN l.lane_order = 'fair' THEN 0
                       ELSE p_now + t.priority * l.ageing END
      FROM taskyard.lanes AS l, taskyard.tasks AS t
     WHERE r.lane = p_lane AND l.no = p_lane AND t.no = r.no;
    PERFORM taskyard.lock_floors();
    DELETE FROM taskyard.floors WHERE lane = p_lane;
    PERFORM taskyard.queue_up(p_now, v_queued, false);
END
$$;
