-- make_names: give the lanes and routes that are new a number, and let the nodes that are here serve
-- the new routes. Needs the lock of names, as register does: else a route and a node that come at the
-- same moment would not see each other.
CREATE OR REPLACE FUNCTION taskyard.make_names(p_lanes text[], p_kinds text[], p_requires text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO taskyard.lanes (name)
    SELECT n.name FROM unnest(p_lanes) AS n (name)
     WHERE NOT EXISTS (SELECT 1 FROM taskyard.lanes AS l WHERE l.name = n.name)
        ON CONFLICT (name) DO NOTHING;
    WITH made AS (
        INSERT INTO taskyard.routes (kind, requires)
        SELECT n.kind, n.requires
          FROM (SELECT u.kind, string_to_array(u.requires, E'\x1f') AS requires
                  FROM unnest(p_kinds, p_requires) AS u (kind, requires)) AS n
         WHERE NOT EXISTS (SELECT 1 FROM taskyard.routes AS r
                            WHERE r.kind = n.kind AND r.requires = n.requires)
            ON CONFLICT (kind, requires) DO NOTHING
        RETURNING no, kind, requires
    )
    INSERT INTO taskyard.node_routes (lease, route)
    SELECT n.lease, m.no FROM made AS m CROSS JOIN taskyard.nodes AS n
     WHERE m.kind = ANY (n.kinds) AND m.requires <@ n.capabilities;
END
$$;

-- serve_new_routes: let all nodes serve the routes that were made since this was last done. Whoever made
-- one has done that already for the nodes it saw; in a transaction of a caller's above READ COMMITTED
-- these were the nodes of an earlier moment. Routes are made one at a time, so none appears later with
-- a lower number. Before any row is locked.
CREATE OR REPLACE FUNCTION taskyard.serve_new_routes() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_done integer := coalesce((SELECT m.value::integer FROM taskyard.meta AS m WHERE m.name = 'routes_served'), 0);
    v_last integer;
BEGIN
    v_last := (SELECT r.no FROM taskyard.routes AS r ORDER BY r.no DESC LIMIT 1);
    IF v_last IS NULL OR v_last <= v_done OR NOT taskyard.try_lock_room() THEN
        RETURN;
    END IF;
    INSERT INTO taskyard.node_routes (lease, route)
    SELECT n.lease, r.no
      FROM taskyard.routes AS r
           JOIN taskyard.nodes AS n ON r.kind = ANY (n.kinds) AND r.requires <@ n.capabilities
     WHERE r.no > v_done AND r.no <= v_last
        ON CONFLICT DO NOTHING;
    IF FOUND THEN
        PERFORM taskyard.tell();
    END IF;
    INSERT INTO taskyard.meta (name, value) VALUES ('routes_served', v_last::text)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value;
END
$$;

-- make_queues: write down those of these queues that are not known yet. Nobody waits here.
CREATE OR REPLACE FUNCTION taskyard.make_queues(
    p_routes integer[], p_lanes integer[], p_priorities smallint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO taskyard.queues (route, lane, priority)
    SELECT q.route, q.lane, q.priority
      FROM unnest(p_routes, p_lanes, p_priorities) AS q (route, lane, priority)
     WHERE NOT EXISTS (SELECT 1 FROM taskyard.queues AS k
                        WHERE k.route = q.route AND k.lane = q.lane AND k.priority = q.priority);
END
$$;

CREATE OR REPLACE FUNCTION taskyard.lane_numbers(p_lanes text[]) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT array_agg((SELECT l.no FROM taskyard.lanes AS l WHERE l.name = n.name) ORDER BY n.at)
          FROM unnest(p_lanes) WITH ORDINALITY AS n (name, at));
END
$$;

CREATE OR REPLACE FUNCTION taskyard.route_numbers(p_kinds text[], p_requires text[]) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT array_agg((SELECT r.no FROM taskyard.routes AS r
                           WHERE r.kind = n.kind AND r.requires = string_to_array(n.requires, E'\x1f'))
                         ORDER BY n.at)
          FROM unnest(p_kinds, p_requires) WITH ORDINALITY AS n (kind, requires, at));
END
$$;

-- enqueue: save these tasks; one whose id or dedup key is taken is left out and named with the task
-- that stands in its way. p_lane and p_route point into the lists of names; lists inside (keys,
-- requires) are joined by the unit separator, which no name contains. p_joined: the transaction is
-- one of the caller's and may last, so no lock is taken that others wait for if it can be helped.
CREATE OR REPLACE FUNCTION taskyard.enqueue(
    p_clock bigint, p_by_no bigint, p_by_attempt integer, p_by_lease bigint,
    p_lanes text[], p_kinds text[], p_requires text[],
    p_id text[], p_lane integer[], p_route integer[], p_priority smallint[], p_max_charged integer[],
    p_timeout bigint[], p_payload text[], p_run_at bigint[], p_delay bigint[], p_deadline bigint[],
    p_keys text[], p_group text[], p_dedup text[], p_until text[],
    p_joined boolean,
    OUT o_stale boolean, OUT o_left_out bigint[], OUT o_clash text[])
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now    bigint;
    v_lanes  integer[];
    v_routes integer[];
    v_nos    bigint[];
    v_won    bigint[];
    v_full   text[];
    v_saved  bigint;
    v_new    boolean;
    v_one    record;
BEGIN
    o_stale := false;
    IF cardinality(array_remove(p_dedup, NULL)) > 0
       AND (SELECT count(DISTINCT u.id) FROM unnest(p_id) AS u (id)) < cardinality(p_id) THEN
        -- Who is left out for an id leaves a dedup key to the next one: only one after the other tells.
        FOR i IN 1..cardinality(p_id) LOOP
            SELECT e.* INTO v_one FROM taskyard.enqueue(
                p_clock, p_by_no, p_by_attempt, p_by_lease, p_lanes, p_kinds, p_requires, p_id[i:i],
                p_lane[i:i], p_route[i:i], p_priority[i:i], p_max_charged[i:i], p_timeout[i:i],
                p_payload[i:i], p_run_at[i:i], p_delay[i:i], p_deadline[i:i], p_keys[i:i], p_group[i:i],
                p_dedup[i:i], p_until[i:i], p_joined) AS e;
            o_stale := v_one.o_stale;
            EXIT WHEN o_stale;
            IF v_one.o_left_out IS NOT NULL THEN
                o_left_out := o_left_out || i::bigint;
                o_clash := o_clash || v_one.o_clash;
            END IF;
        END LOOP;
        RETURN;
    END IF;
    v_lanes := taskyard.lane_numbers(p_lanes);
    v_routes := taskyard.route_numbers(p_kinds, p_requires);
    v_new := array_position(v_lanes, NULL) IS NOT NULL OR array_position(v_routes, NULL) IS NOT NULL;
    IF v_new THEN
        PERFORM taskyard.lock_names();
    END IF;
    IF p_by_no IS NOT NULL THEN
        PERFORM 1 FROM taskyard.running
          WHERE no = p_by_no AND attempt = p_by_attempt AND (p_by_lease = 0 OR lease = p_by_lease)
            FOR KEY SHARE;
        o_stale := NOT FOUND;
    END IF;
    IF o_stale OR cardinality(p_id) = 0 THEN
        RETURN;
    END IF;
    IF v_new THEN
        PERFORM taskyard.make_names(p_lanes, p_kinds, p_requires);
        v_lanes := taskyard.lane_numbers(p_lanes);
        v_routes := taskyard.route_numbers(p_kinds, p_requires);
    END IF;
    PERFORM taskyard.make_queues(array_agg(q.route), array_agg(q.lane), array_agg(q.priority))
       FROM (SELECT DISTINCT v_routes[u.route] AS route, v_lanes[u.lane] AS lane, u.priority
               FROM unnest(p_route, p_lane, p_priority) AS u (route, lane, priority)) AS q;
    v_now := taskyard.moment(p_clock);
    v_nos := ARRAY(SELECT nextval('taskyard.seq') FROM generate_series(1, cardinality(p_id)));

    IF cardinality(array_remove(p_dedup, NULL)) > 0 THEN
        -- In the order of the keys, so that two who want the same ones do not deadlock.
        WITH won AS (
            INSERT INTO taskyard.dedup (key, no, until)
            SELECT d.key, d.no, d.until
              FROM unnest(v_nos, p_id, p_dedup, p_until) AS d (no, id, key, until)
             WHERE d.key IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM taskyard.tasks AS t WHERE t.id = d.id)
             ORDER BY d.key, d.no
                ON CONFLICT (key) DO NOTHING
            RETURNING no
        )
        SELECT array_agg(won.no) INTO v_won FROM won;
    END IF;

    IF NOT p_joined AND cardinality(array_remove(p_keys, NULL)) > 0 THEN
        -- A task whose key is full waits for it at once, if nobody is changing who holds what just
        -- now; otherwise the first claim that looks at it parks it.
        v_full := taskyard.full_keys(p_keys);
        IF v_full IS NOT NULL THEN
            v_full := CASE WHEN taskyard.try_lock_room() THEN taskyard.full_keys(p_keys) END;
        END IF;
    END IF;

    WITH given AS MATERIALIZED (
        SELECT u.no, u.id, v_lanes[u.lane] AS lane, v_routes[u.route] AS route, u.priority, u.max_charged,
               u.timeout, u.payload, coalesce(u.run_at, v_now + coalesce(u.delay, 0)) AS run_at, u.deadline,
               string_to_array(u.keys, E'\x1f') AS keys, u.grp, u.dedup, u.until
          FROM unnest(v_nos, p_id, p_lane, p_route, p_priority, p_max_charged, p_timeout, p_payload,
                      p_run_at, p_delay, p_deadline, p_keys, p_group, p_dedup, p_until)
               AS u (no, id, lane, route, priority, max_charged, timeout, payload, run_at, delay, deadline,
                     keys, grp, dedup, until)
    ), saved AS (
        INSERT INTO taskyard.tasks (no, seq, timeout, created_at, run_at, deadline, lane, route, max_charged,
                                    priority, id, payload, keys, grp, dedup, dedup_until)
        SELECT g.no, g.no, g.timeout, v_now, g.run_at, g.deadline, g.lane, g.route, g.max_charged,
               g.priority, g.id, g.payload, g.keys, g.grp, g.dedup, g.until
          FROM given AS g
         WHERE g.dedup IS NULL OR g.no = ANY (v_won)
            ON CONFLICT (id) DO NOTHING
        RETURNING no, lane, route, priority, run_at, deadline, keys, dedup
    ), sorted AS (
        SELECT s.*, s.run_at <= v_now AS due,
               CASE WHEN s.keys IS NOT NULL AND v_full IS NOT NULL AND s.keys && v_full
                    THEN (SELECT k.key FROM unnest(s.keys) WITH ORDINALITY AS k (key, at)
                           WHERE k.key = ANY (v_full) ORDER BY k.at LIMIT 1) END AS full_key
          FROM saved AS s
    ), queued AS (
        INSERT INTO taskyard.ready (seq, no, lane, route, priority, special, reason, keys, dedup, deadline)
        SELECT s.no, s.no, s.lane, s.route, s.priority, s.keys IS NOT NULL, 'created', s.keys, s.dedup,
               s.deadline
          FROM sorted AS s WHERE s.due AND s.full_key IS NULL
    ), parked AS (
        INSERT INTO taskyard.parked (key, seq, no, lane, route, priority, special, reason, keys, dedup, deadline)
        SELECT s.full_key, s.no, s.no, s.lane, s.route, s.priority, true, 'created', s.keys, s.dedup,
               s.deadline
          FROM sorted AS s WHERE s.due AND s.full_key IS NOT NULL
    ), waits AS (
        INSERT INTO taskyard.pending (no, run_at, deadline, lane, reason)
        SELECT s.no, s.run_at, s.deadline, s.lane, 'created' FROM sorted AS s WHERE NOT s.due
    ), named AS (
        INSERT INTO taskyard.task_keys (key, no)
        SELECT k.key, s.no FROM sorted AS s CROSS JOIN LATERAL unnest(s.keys) AS k (key)
         WHERE s.keys IS NOT NULL
    )
    SELECT count(*) INTO v_saved FROM saved;

    IF v_saved > 0 THEN
        PERFORM taskyard.tell();
    END IF;
    IF v_saved < cardinality(p_id) THEN
        IF v_won IS NOT NULL THEN
            DELETE FROM taskyard.dedup AS d
             WHERE d.key = ANY (p_dedup) AND d.no = ANY (v_won)
               AND NOT EXISTS (SELECT 1 FROM taskyard.tasks AS t WHERE t.no = d.no);
        END IF;
        SELECT array_agg(c.at), array_agg(c.clash) INTO o_left_out, o_clash
          FROM (SELECT v.at, coalesce(
                           (SELECT t.id FROM taskyard.tasks AS t WHERE t.id = v.id),
                           (SELECT t.id FROM taskyard.dedup AS d JOIN taskyard.tasks AS t ON t.no = d.no
                             WHERE d.key = v.dedup)) AS clash
                  FROM unnest(v_nos, p_id, p_dedup) WITH ORDINALITY AS v (no, id, dedup, at)
                 WHERE NOT EXISTS (SELECT 1 FROM taskyard.tasks AS t WHERE t.no = v.no)) AS c;
        IF array_position(o_clash, NULL) IS NOT NULL THEN
            -- Whoever stood in the way has gone since: the call is to be repeated.
            RAISE EXCEPTION 'a dedup key was given up meanwhile' USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
END
$$;

-- full_keys: those of these keys that have no room.
CREATE OR REPLACE FUNCTION taskyard.full_keys(p_keys text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT array_agg(d.key)
          FROM (SELECT DISTINCT k.key FROM unnest(p_keys) AS u (keys)
                       CROSS JOIN LATERAL unnest(string_to_array(u.keys, E'\x1f')) AS k (key)) AS d
         WHERE taskyard.key_room(d.key) <= 0);
END
$$;
