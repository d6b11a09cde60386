-- Tasks that are *plain* (is_plain in enqueue.py) are due at once and name no key, dedup key, group,
-- dependency or deadline. Where their lanes are plain too they are saved as they are: the rule of enqueue
-- in fewer steps. Whatever else there is about them (a new name or queue, an ordered lane, one with a depth,
-- an id that is taken) is for enqueue. Both answer NULL if all were saved, else what enqueue answers, as JSON.
-- p_by_no, p_by_attempt, p_by_lease: only while that attempt is the accepted one, if there is one.

-- enqueue_one: save a plain task. Of careful plans it needs but one setting, for nothing is joined here but single
-- rows; each setting takes its time, and this is the call that is made most often.
CREATE OR REPLACE FUNCTION taskyard.enqueue_one(
    p_clock bigint, p_lane text, p_kind text, p_requires text, p_priority smallint, p_max_charged integer,
    p_timeout bigint, p_id text, p_payload text, p_trace text,
    p_by_no bigint, p_by_attempt integer, p_by_lease bigint) RETURNS text
LANGUAGE plpgsql
SET enable_seqscan = off AS $$
DECLARE
    v_now   bigint := taskyard.moment(p_clock);
    v_no    bigint := nextval('taskyard.seq');
    v_lane  integer;
    v_route integer;
BEGIN
    -- A table at a time: to set up a join takes longer than to look into three.
    SELECT l.no INTO v_lane FROM taskyard.lanes AS l
     WHERE l.name = p_lane AND NOT l.ordered AND l.max_depth IS NULL;
    SELECT r.no INTO v_route FROM taskyard.routes AS r
     WHERE r.kind = p_kind AND r.requires = string_to_array(p_requires, E'\x1f');
    PERFORM 1 FROM taskyard.queues AS q
      WHERE q.route = v_route AND q.lane = v_lane AND q.priority = p_priority LIMIT 1;
    IF FOUND THEN
        -- Nothing is saved, and no row locked, where the id is taken. (A subtransaction would do for that as well,
        -- and would have a number of its own.)
        INSERT INTO taskyard.tasks (no, seq, timeout, created_at, run_at, lane, route, max_charged, priority, id,
                                    payload, trace)
        VALUES (v_no, v_no, p_timeout, v_now, v_now, v_lane, v_route, p_max_charged, p_priority, p_id, p_payload,
                p_trace)
            ON CONFLICT (id) DO NOTHING;
    END IF;
    IF FOUND THEN
        IF p_by_no IS NOT NULL THEN
            PERFORM 1 FROM taskyard.running AS r
              WHERE r.no = p_by_no AND r.attempt = p_by_attempt
                AND (p_by_lease = 0 OR r.lease = p_by_lease) FOR KEY SHARE;
            IF NOT FOUND THEN
                DELETE FROM taskyard.tasks WHERE no = v_no;
                RETURN '{"o_stale": true}';
            END IF;
        END IF;
        INSERT INTO taskyard.ready (seq, no, lane, route, priority, reason)
        VALUES (v_no, v_no, v_lane, v_route, p_priority, 'created');
        PERFORM pg_notify('taskyard.changed', '');
        RETURN NULL;
    END IF;
    RETURN taskyard.enqueue_as_any(
        p_clock, ARRAY[p_lane], ARRAY[p_kind], ARRAY[p_requires], ARRAY[p_priority], ARRAY[p_max_charged],
        ARRAY[p_timeout], ARRAY[1], ARRAY[p_id], ARRAY[p_payload],
        CASE WHEN p_trace IS NOT NULL THEN ARRAY[p_trace] END, p_by_no, p_by_attempt, p_by_lease);
END
$$;

-- enqueue_plain: save plain tasks. p_form points into the lists that come before it: what many of them have
-- in common is said once. It is empty where all have the first form; p_trace is NULL if none carries a trace.
CREATE OR REPLACE FUNCTION taskyard.enqueue_plain(
    p_clock bigint, p_lanes text[], p_kinds text[], p_requires text[], p_priorities smallint[],
    p_max_charged integer[], p_timeouts bigint[], p_form integer[], p_id text[], p_payload text[],
    p_trace text[], p_by_no bigint, p_by_attempt integer, p_by_lease bigint) RETURNS text
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now         bigint;
    v_lanes       integer[];
    v_routes      integer[];
    v_nos         bigint[];
    -- of the first form
    v_lane        integer;
    v_route       integer;
    v_priority    smallint := p_priorities[1];
    v_max_charged integer := p_max_charged[1];
    v_timeout     bigint := p_timeouts[1];
BEGIN
    SELECT array_agg(l.no ORDER BY f.at), array_agg(r.no ORDER BY f.at) INTO v_lanes, v_routes
      FROM unnest(p_lanes, p_kinds, p_requires, p_priorities) WITH ORDINALITY
               AS f (lane, kind, requires, priority, at)
           CROSS JOIN LATERAL (
               SELECT a.no FROM taskyard.lanes AS a
                WHERE a.name = f.lane AND NOT a.ordered AND a.max_depth IS NULL OFFSET 0) AS l
           CROSS JOIN LATERAL (
               SELECT a.no FROM taskyard.routes AS a
                WHERE a.kind = f.kind AND a.requires = string_to_array(f.requires, E'\x1f') OFFSET 0) AS r
     WHERE (SELECT true FROM taskyard.queues AS q
             WHERE q.route = r.no AND q.lane = l.no AND q.priority = f.priority LIMIT 1);
    IF cardinality(v_lanes) = cardinality(p_lanes) THEN
        BEGIN
            IF p_by_no IS NOT NULL THEN
                PERFORM 1 FROM taskyard.running AS r
                  WHERE r.no = p_by_no AND r.attempt = p_by_attempt
                    AND (p_by_lease = 0 OR r.lease = p_by_lease) FOR KEY SHARE;
                IF NOT FOUND THEN
                    RETURN '{"o_stale": true}';
                END IF;
            END IF;
            v_now := taskyard.moment(p_clock);
            v_lane := v_lanes[1];
            v_route := v_routes[1];
            v_nos := ARRAY(SELECT nextval('taskyard.seq') FROM generate_series(1, cardinality(p_id)));
            -- A table at a time, each from lists: rows that one statement hands to the next are copied on the way.
            IF cardinality(p_lanes) = 1 THEN
                INSERT INTO taskyard.tasks (no, seq, timeout, created_at, run_at, lane, route, max_charged, priority,
                                            id, payload, trace)
                SELECT u.no, u.no, v_timeout, v_now, v_now, v_lane, v_route, v_max_charged, v_priority,
                       u.id, u.payload, u.trace
                  FROM (SELECT unnest(v_nos) AS no, unnest(p_id) AS id, unnest(p_payload) AS payload,
                               unnest(p_trace) AS trace) AS u;
                INSERT INTO taskyard.ready (seq, no, lane, route, priority, reason)
                SELECT u.no, u.no, v_lane, v_route, v_priority, 'created' FROM (SELECT unnest(v_nos) AS no) AS u;
            ELSE
                INSERT INTO taskyard.tasks (no, seq, timeout, created_at, run_at, lane, route, max_charged, priority,
                                            id, payload, trace)
                SELECT u.no, u.no, p_timeouts[u.form], v_now, v_now, v_lanes[u.form], v_routes[u.form],
                       p_max_charged[u.form], p_priorities[u.form], u.id, u.payload, u.trace
                  FROM (SELECT unnest(v_nos) AS no, unnest(p_id) AS id, unnest(p_payload) AS payload,
                               unnest(p_form) AS form, unnest(p_trace) AS trace) AS u;
                INSERT INTO taskyard.ready (seq, no, lane, route, priority, reason)
                SELECT u.no, u.no, v_lanes[u.form], v_routes[u.form], p_priorities[u.form], 'created'
                  FROM (SELECT unnest(v_nos) AS no, unnest(p_form) AS form) AS u;
            END IF;
            PERFORM pg_notify('taskyard.changed', '');
            RETURN NULL;
        EXCEPTION WHEN unique_violation THEN
            NULL;  -- an id is taken, or named twice; nothing is saved, and no row locked
        END;
    END IF;
    RETURN taskyard.enqueue_as_any(
        p_clock, p_lanes, p_kinds, p_requires, p_priorities, p_max_charged, p_timeouts, p_form, p_id, p_payload,
        p_trace, p_by_no, p_by_attempt, p_by_lease);
END
$$;

-- enqueue_as_any: the same, by enqueue.
CREATE OR REPLACE FUNCTION taskyard.enqueue_as_any(
    p_clock bigint, p_lanes text[], p_kinds text[], p_requires text[], p_priorities smallint[],
    p_max_charged integer[], p_timeouts bigint[], p_form integer[], p_id text[], p_payload text[],
    p_trace text[], p_by_no bigint, p_by_attempt integer, p_by_lease bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_form        integer[] := CASE WHEN cardinality(p_form) > 0 THEN p_form
                                    ELSE array_fill(1, ARRAY[cardinality(p_id)]) END;
    v_priority    smallint[];
    v_max_charged integer[];
    v_timeout     bigint[];
BEGIN
    SELECT array_agg(p_priorities[u.form] ORDER BY u.at), array_agg(p_max_charged[u.form] ORDER BY u.at),
           array_agg(p_timeouts[u.form] ORDER BY u.at)
      INTO v_priority, v_max_charged, v_timeout
      FROM unnest(v_form) WITH ORDINALITY AS u (form, at);
    RETURN (
        SELECT row_to_json(e)::text
          FROM taskyard.enqueue(
                   p_clock, p_by_no, p_by_attempt, p_by_lease, p_lanes, p_kinds, p_requires, p_id, v_form,
                   v_form, v_priority, v_max_charged, v_timeout, p_payload, NULL, NULL, NULL, NULL, NULL, NULL,
                   NULL, '{}', NULL, NULL, NULL, false, p_trace) AS e);
END
$$;
