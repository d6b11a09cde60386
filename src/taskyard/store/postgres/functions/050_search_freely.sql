-- those_known: these without those whose row of `tasks` is gone: nothing can be told of them, and what is told of the
-- others must not be taken for theirs.
CREATE OR REPLACE FUNCTION taskyard.those_known(
    p_no bigint[], p_attempt integer[], p_charged integer[], p_losses integer[],
    OUT o_no bigint[], OUT o_attempt integer[], OUT o_charged integer[], OUT o_losses integer[])
LANGUAGE sql STABLE AS $$
    SELECT array_agg(u.no ORDER BY u.at), array_agg(u.attempt ORDER BY u.at), array_agg(u.charged ORDER BY u.at),
           array_agg(u.losses ORDER BY u.at)
      FROM unnest(p_no, p_attempt, p_charged, p_losses) WITH ORDINALITY AS u (no, attempt, charged, losses, at)
           JOIN taskyard.tasks AS t ON t.no = u.no
$$;

-- To search freely: take tasks nothing but the node's room limits. Many do this at the same time and
-- pass over each other's rows. Where a lane's order holds a special task, only what comes before it
-- is taken (o_cut); the same snapshot sees both, so nothing goes before a task it saw first. With p_counted, under
-- the lock, the room of their one lane is a limit too, and is in p_slots. The first p_slots are to start at once.
-- Answers what their worker needs: in a list that is shorter than that of the numbers, one stands for all. Also the
-- dedup keys they have, where those stand whose deadline has passed, and whether something limited was seen.
-- (o_locked is that of take_by_key.)

-- take_from_stream: from one lane and route. These parts are all of that, by priority; o_priority has the first and
-- the last from which was taken. Rows that are locked are deleted as they were read: they never change.
CREATE OR REPLACE FUNCTION taskyard.take_from_stream(
    p_now bigint, p_lease bigint, p_number bigint, p_slots integer, p_want integer,
    p_parts taskyard.stretch[], p_counted boolean,
    OUT o_no bigint[], OUT o_id text[], OUT o_route integer[], OUT o_lane integer[], OUT o_attempt integer[],
    OUT o_charged integer[], OUT o_max_charged integer[], OUT o_timeout bigint[], OUT o_payload text[],
    OUT o_losses integer[], OUT o_run_at bigint[], OUT o_priority smallint[], OUT o_origins json,
    OUT o_dedup text[], OUT o_late tid[], OUT o_cut boolean, OUT o_limited boolean, OUT o_locked integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_lane   integer := (p_parts[1]).lane;
    v_places tid[];
    v_alike  boolean;  -- they have the same limits
    v_fresh  boolean;  -- none was claimed before
    v_dedup  boolean;  -- some have a dedup key
    v_traced boolean;  -- some carry a trace
BEGIN
    o_cut := false;
    o_limited := false;
    IF NOT p_counted THEN
        -- They may have been found before the node was locked: the lane may have been paused or limited since.
        SELECT coalesce(s.room > 0, l.capacity IS NOT NULL OR l.rate_interval IS NOT NULL OR l.ordered)
          INTO o_limited
          FROM unnest(p_parts[1:1]) AS s
               CROSS JOIN LATERAL (
                   SELECT * FROM taskyard.lanes AS a
                    WHERE a.no = s.lane AND NOT (a.paused AND (a.paused_until IS NULL OR a.paused_until > p_now))
                   OFFSET 0) AS l;
        IF NOT FOUND OR o_limited OR (p_parts[1]).room IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    -- They are handed on as lists: as rows, from one part of a statement to the next, they would be copied each time.
    WITH bound AS MATERIALIZED (
        SELECT p.priority, f.seq
          FROM unnest(p_parts) AS p
               CROSS JOIN LATERAL (
                   SELECT r.seq FROM taskyard.ready AS r
                    WHERE r.special AND r.lane = p.lane AND r.route = p.route
                      AND r.priority = p.priority AND r.seq >= p.floor
                    ORDER BY r.seq LIMIT 1) AS f
         ORDER BY p.priority LIMIT 1
    )
    SELECT array_agg(t.place) FILTER (WHERE NOT t.late), array_agg(t.no) FILTER (WHERE NOT t.late),
           array_agg(t.attempt) FILTER (WHERE NOT t.late), array_agg(t.charged) FILTER (WHERE NOT t.late),
           array_agg(t.losses) FILTER (WHERE NOT t.late), array_agg(t.dedup) FILTER (WHERE NOT t.late),
           bool_and(t.attempt = 1 AND t.charged = 0 AND t.losses = 0), count(t.dedup) > 0,
           ARRAY[min(t.priority), max(t.priority)], array_agg(t.place) FILTER (WHERE t.late),
           EXISTS (SELECT 1 FROM bound)
      INTO v_places, o_no, o_attempt, o_charged, o_losses, o_dedup, v_fresh, v_dedup, o_priority, o_late, o_cut
      FROM (SELECT x.*
              FROM unnest(p_parts) AS q
                   LEFT JOIN bound AS b ON true
                   CROSS JOIN LATERAL (
                       SELECT a.ctid AS place, a.no, a.attempt + 1 AS attempt, a.charged, a.losses, a.priority,
                              a.dedup, coalesce(a.deadline <= p_now, false) AS late
                         FROM taskyard.ready AS a
                        WHERE a.lane = q.lane AND a.route = q.route AND a.priority = q.priority
                          AND a.seq >= q.floor
                          AND a.seq < CASE WHEN q.priority = b.priority THEN b.seq ELSE 9223372036854775807 END
                        ORDER BY a.seq LIMIT p_want
                          FOR UPDATE SKIP LOCKED) AS x
             WHERE b.seq IS NULL OR q.priority <= b.priority
             LIMIT p_want) AS t;
    IF o_no IS NULL THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM taskyard.ready WHERE ctid = ANY (v_places)
    ), started AS (
        INSERT INTO taskyard.running (no, lease, request, started_at, attempt, lane, charged, losses, dedup)
        SELECT u.no, p_lease, p_number, CASE WHEN u.at <= p_slots THEN p_now END, u.attempt, v_lane, u.charged,
               u.losses, u.dedup
          FROM (SELECT unnest(o_no) AS no, generate_subscripts(o_no, 1) AS at, unnest(o_attempt) AS attempt,
                       unnest(o_charged) AS charged, unnest(o_losses) AS losses, unnest(o_dedup) AS dedup) AS u
    )
    SELECT array_agg(d.id), array_agg(d.payload), array_agg(d.run_at), ARRAY[max(d.max_charged)],
           ARRAY[max(d.timeout)], min(d.max_charged) = max(d.max_charged) AND min(d.timeout) = max(d.timeout),
           bool_or(d.trace IS NOT NULL)
      INTO o_id, o_payload, o_run_at, o_max_charged, o_timeout, v_alike, v_traced
      FROM (SELECT unnest(o_no) AS no) AS v  -- in order, and so what comes of it
           CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = v.no OFFSET 0) AS d;
    IF cardinality(o_id) IS DISTINCT FROM cardinality(o_no) THEN
        SELECT * INTO o_no, o_attempt, o_charged, o_losses
          FROM taskyard.those_known(o_no, o_attempt, o_charged, o_losses);
    END IF;
    o_dedup := CASE WHEN v_dedup THEN array_remove(o_dedup, NULL) END;
    o_route := ARRAY[(p_parts[1]).route];
    o_lane := ARRAY[v_lane];
    IF v_fresh THEN
        o_attempt := '{1}';
        o_charged := '{0}';
        o_losses := '{0}';
    END IF;
    IF NOT v_alike THEN
        SELECT array_agg(d.max_charged), array_agg(d.timeout) INTO o_max_charged, o_timeout
          FROM (SELECT unnest(o_no) AS no) AS v
               CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = v.no OFFSET 0) AS d;
    END IF;
    IF v_traced THEN
        SELECT json_object_agg(d.no, json_build_array(d.trace, d.run_at <= d.created_at)) INTO o_origins
          FROM (SELECT unnest(o_no) AS no) AS v
               CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = v.no OFFSET 0) AS d
         WHERE d.trace IS NOT NULL;
    END IF;
END
$$;

-- choose_from_streams: lock the first tasks of several lanes and routes, which share what is wanted: the heads
-- of all lanes, then their seconds, …; the number rotates which lane is first. Answers where they stand, in order.
CREATE OR REPLACE FUNCTION taskyard.choose_from_streams(
    p_now bigint, p_number bigint, p_parts taskyard.stretch[], p_want integer, p_counted boolean,
    OUT o_places tid[], OUT o_late tid[], OUT o_cut boolean, OUT o_limited boolean)
LANGUAGE plpgsql AS $$
BEGIN
    WITH part AS MATERIALIZED (
        -- They may have been found before the node was locked: a lane may have been paused or limited since.
        SELECT s.lane, s.route, s.priority, s.floor,
               CASE WHEN p_counted THEN NULL
                    WHEN l.capacity IS NULL AND l.rate_interval IS NULL AND NOT l.ordered THEN s.room
                    ELSE coalesce(s.room, 1) END AS room
          FROM unnest(p_parts) AS s
               CROSS JOIN LATERAL (
                   SELECT * FROM taskyard.lanes AS a
                    WHERE a.no = s.lane
                      AND NOT (a.paused AND (a.paused_until IS NULL OR a.paused_until > p_now))
                   OFFSET 0) AS l
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
                                       ORDER BY a.seq LIMIT p_want) AS x
                            WHERE q.lane = t.lane AND q.route = t.route
                            LIMIT p_want) AS r) AS c
         ORDER BY c.rank, c.turn LIMIT p_want
    ), shares AS MATERIALIZED (
        SELECT t.*, (SELECT count(*) FROM chosen AS c WHERE c.lane = t.lane AND c.route = t.route) AS share
          FROM turned AS t
    ), locked AS MATERIALIZED (
        SELECT r.*, s.lane, s.turn
          FROM shares AS s
               CROSS JOIN LATERAL (
                   SELECT x.*
                     FROM queue AS q
                          CROSS JOIN LATERAL (
                              SELECT a.ctid AS place, a.priority, a.seq,
                                     coalesce(a.deadline <= p_now, false) AS late
                                FROM taskyard.ready AS a
                               WHERE a.lane = q.lane AND a.route = q.route
                                 AND a.priority = q.priority AND a.seq >= q.floor AND a.seq < q.bound
                               ORDER BY a.seq LIMIT s.share
                                 FOR UPDATE SKIP LOCKED) AS x
                    WHERE q.lane = s.lane AND q.route = s.route
                    LIMIT s.share) AS r
    ), ordered AS (
        SELECT l.place, l.late, l.turn,
               row_number() OVER (PARTITION BY l.late, l.lane ORDER BY l.priority, l.seq) AS nth
          FROM locked AS l
    )
    SELECT array_agg(o.place ORDER BY o.nth, o.turn) FILTER (WHERE NOT o.late),
           array_agg(o.place) FILTER (WHERE o.late), EXISTS (SELECT 1 FROM bound),
           coalesce((SELECT bool_or(p.room > 0) FROM part AS p), false)
      INTO o_places, o_late, o_cut, o_limited
      FROM ordered AS o;
END
$$;

-- counted_room: how many may start of these queues, if they are all of one lane that has a capacity, and nothing
-- else that is particular; else NULL.
CREATE OR REPLACE FUNCTION taskyard.counted_room(p_parts taskyard.stretch[]) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lane integer := (p_parts[1]).lane;
BEGIN
    IF (p_parts[1]).room IS NULL OR (p_parts[cardinality(p_parts)]).lane <> v_lane THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT l.capacity - taskyard.runs_in(v_lane) FROM taskyard.lanes AS l
         WHERE l.no = v_lane AND l.capacity IS NOT NULL AND l.rate_interval IS NULL AND NOT l.ordered);
END
$$;

-- take_from_streams: from several lanes and routes; o_priority has those of each task.
CREATE OR REPLACE FUNCTION taskyard.take_from_streams(
    p_now bigint, p_lease bigint, p_number bigint, p_slots integer, p_want integer,
    p_parts taskyard.stretch[], p_counted boolean,
    OUT o_no bigint[], OUT o_id text[], OUT o_route integer[], OUT o_lane integer[], OUT o_attempt integer[],
    OUT o_charged integer[], OUT o_max_charged integer[], OUT o_timeout bigint[], OUT o_payload text[],
    OUT o_losses integer[], OUT o_run_at bigint[], OUT o_priority smallint[], OUT o_origins json,
    OUT o_dedup text[], OUT o_late tid[], OUT o_cut boolean, OUT o_limited boolean, OUT o_locked integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_places tid[];
BEGIN
    SELECT c.* INTO v_places, o_late, o_cut, o_limited
      FROM taskyard.choose_from_streams(p_now, p_number, p_parts, p_want, p_counted) AS c;
    IF v_places IS NULL THEN
        RETURN;
    END IF;
    WITH taken AS MATERIALIZED (
        SELECT r.*, u.at
          FROM unnest(v_places) WITH ORDINALITY AS u (place, at)
               CROSS JOIN LATERAL (
                   SELECT a.no, a.lane, a.route, a.attempt + 1 AS attempt, a.charged, a.losses,
                          a.priority, a.dedup
                     FROM taskyard.ready AS a WHERE a.ctid = u.place OFFSET 0) AS r
    ), gone AS (
        DELETE FROM taskyard.ready WHERE ctid = ANY (v_places)
    ), started AS (
        INSERT INTO taskyard.running (no, lease, request, started_at, attempt, lane, charged, losses, dedup)
        SELECT t.no, p_lease, p_number, CASE WHEN t.at <= p_slots THEN p_now END, t.attempt, t.lane,
               t.charged, t.losses, t.dedup
          FROM taken AS t
    )
    SELECT array_agg(x.no), array_agg(x.id), array_agg(x.route), array_agg(x.lane), array_agg(x.attempt),
           array_agg(x.charged), array_agg(x.max_charged), array_agg(x.timeout), array_agg(x.payload),
           array_agg(x.losses), array_agg(x.run_at), array_agg(x.priority),
           array_agg(x.dedup) FILTER (WHERE x.dedup IS NOT NULL),
           json_object_agg(x.no, json_build_array(x.trace, x.run_at <= x.created_at))
               FILTER (WHERE x.trace IS NOT NULL)
      INTO o_no, o_id, o_route, o_lane, o_attempt, o_charged, o_max_charged, o_timeout, o_payload,
           o_losses, o_run_at, o_priority, o_dedup, o_origins
      FROM (SELECT t.*, d.id, d.max_charged, d.timeout, d.payload, d.run_at, d.trace, d.created_at
              FROM taken AS t  -- in order, and so what comes of it
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = t.no OFFSET 0) AS d
           ) AS x;
END
$$;
