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

-- lane_numbers: of these names, NULL for one that is new; and whether order or depth of one is particular.
CREATE OR REPLACE FUNCTION taskyard.lane_numbers(
    p_lanes text[], OUT o_numbers integer[], OUT o_particular boolean)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT array_agg(l.no ORDER BY n.at), coalesce(bool_or(l.ordered OR l.max_depth IS NOT NULL), false)
      INTO o_numbers, o_particular
      FROM unnest(p_lanes) WITH ORDINALITY AS n (name, at)
           LEFT JOIN LATERAL (SELECT * FROM taskyard.lanes AS a WHERE a.name = n.name OFFSET 0) AS l ON true;
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

-- lane_depth: how many wait in a lane, counted up to p_most.
CREATE OR REPLACE FUNCTION taskyard.lane_depth(p_lane integer, p_most integer) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT count(*) FROM (
            SELECT 1 FROM taskyard.ready AS r WHERE r.lane = p_lane
            UNION ALL SELECT 1 FROM taskyard.parked AS w WHERE w.lane = p_lane AND w.no > 0
            UNION ALL SELECT 1 FROM taskyard.pending AS p WHERE p.lane = p_lane
            LIMIT p_most) AS waiting);
END
$$;

-- full_keys: those of these keys that have no room.
CREATE OR REPLACE FUNCTION taskyard.full_keys(p_now bigint, p_keys text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_keys text[] := ARRAY(SELECT DISTINCT k.key FROM unnest(p_keys) AS u (keys)
                                  CROSS JOIN LATERAL unnest(string_to_array(u.keys, E'\x1f')) AS k (key));
BEGIN
    RETURN (
        SELECT array_agg(k.key) FROM unnest(v_keys, taskyard.key_rooms(p_now, v_keys)) AS k (key, room)
         WHERE k.room <= 0);
END
$$;

-- save_dependencies: of those of these tasks that were saved. What has ended already is looked at now, or,
-- in a caller's transaction, at its end.
CREATE OR REPLACE FUNCTION taskyard.save_dependencies(
    p_now bigint, p_clock bigint, p_nos bigint[], p_depends text[], p_joined boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_new bigint[];
BEGIN
    INSERT INTO taskyard.dependencies (no, place, on_no, on_id)
    SELECT v.no, min(k.at), t.no, t.id
      FROM unnest(p_nos, p_depends) AS v (no, depends)
           CROSS JOIN LATERAL (SELECT 1 FROM taskyard.tasks AS a WHERE a.no = v.no OFFSET 0) AS saved
           CROSS JOIN LATERAL unnest(string_to_array(v.depends, E'\x1f')) WITH ORDINALITY AS k (id, at)
           CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.id = k.id OFFSET 0) AS t
     GROUP BY v.no, t.no, t.id;
    WITH made AS (
        INSERT INTO taskyard.waits (no, waits_for)
        SELECT v.no, count(*)
          FROM unnest(p_nos) AS v (no)
               CROSS JOIN LATERAL (SELECT 1 FROM taskyard.dependencies AS d WHERE d.no = v.no OFFSET 0) AS d
         GROUP BY v.no
        RETURNING no
    )
    SELECT array_agg(m.no) INTO v_new FROM made AS m;
    IF p_joined THEN
        INSERT INTO taskyard.unsettled (no, clock, xid)
        SELECT n.no, p_clock, pg_current_xact_id() FROM unnest(v_new) AS n (no);
    ELSIF v_new IS NOT NULL THEN
        PERFORM taskyard.settle(p_now, v_new);
    END IF;
END
$$;

-- change_waiting: give a task that waits the payload, and perhaps the later time, of one that it stands in
-- the way of; false if it does not wait. What may be claimed is put back as a new row: a claim that has
-- seen the old one does not get it with the old payload. What is parked stays so: whoever would wake it
-- meanwhile passes it over, and it is looked at a second time. A caller's transaction changes none that
-- waits for others: whoever it waits for must be able to end, however long that transaction lasts, and it
-- may then start at once.
CREATE OR REPLACE FUNCTION taskyard.change_waiting(
    p_no bigint, p_payload text, p_trace text, p_run_at bigint, p_joined boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_place tid;
    v_due   bigint;
    t       taskyard.tasks%ROWTYPE;
BEGIN
    SELECT * INTO t FROM taskyard.tasks AS a WHERE a.no = p_no;
    IF EXISTS (SELECT 1 FROM taskyard.waits AS w WHERE w.no = p_no AND w.waits_for > 0) THEN
        IF p_joined THEN
            RETURN false;
        END IF;
        PERFORM taskyard.lock_waits(ARRAY[p_no]);
    END IF;
    FOR v_look IN 1..2 LOOP
        SELECT r.ctid INTO v_place FROM taskyard.ready AS r
         WHERE r.lane = t.lane AND r.route = t.route AND r.priority = ANY (ARRAY[0, t.priority]::smallint[])
           AND r.seq = t.seq FOR UPDATE;
        IF FOUND THEN
            WITH gone AS (DELETE FROM taskyard.ready WHERE ctid = v_place RETURNING *)
            INSERT INTO taskyard.ready (seq, no, lane, route, attempt, charged, losses, priority, special,
                                        reason, keys, dedup, deadline, node, rank, grp, urgency)
            SELECT seq, no, lane, route, attempt, charged, losses, priority, special, reason, keys, dedup,
                   deadline, node, rank, grp, urgency FROM gone;
            EXIT;
        END IF;
        PERFORM 1 FROM taskyard.parked AS r
          WHERE r.key = ANY (t.keys) AND r.lane = t.lane AND r.route = t.route
            AND r.priority = ANY (ARRAY[0, t.priority]::smallint[]) AND r.seq = t.seq FOR UPDATE;
        EXIT WHEN FOUND;
        SELECT p.ctid, p.run_at INTO v_place, v_due FROM taskyard.pending AS p WHERE p.no = p_no FOR UPDATE;
        IF FOUND THEN
            IF p_run_at > v_due THEN
                WITH gone AS (DELETE FROM taskyard.pending WHERE ctid = v_place RETURNING *)
                INSERT INTO taskyard.pending (no, run_at, deadline, lane, attempt, charged, losses, reason, node)
                SELECT no, p_run_at, deadline, lane, attempt, charged, losses, reason, node FROM gone;
                UPDATE taskyard.tasks SET run_at = p_run_at WHERE no = p_no;
            END IF;
            EXIT;
        END IF;
        PERFORM 1 FROM taskyard.paused AS p WHERE p.no = p_no FOR UPDATE;
        EXIT WHEN FOUND;
        IF v_look = 2 THEN
            RETURN false;
        END IF;
    END LOOP;
    UPDATE taskyard.tasks SET payload = p_payload, trace = p_trace WHERE no = p_no;
    RETURN true;
END
$$;

-- clash: what becomes of the task that keeps a dedup key when another one wants it.
CREATE OR REPLACE FUNCTION taskyard.clash(
    p_id text, p_clash text, p_route integer, p_payload text, p_trace text, p_run_at bigint, p_joined boolean)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_no bigint;
BEGIN
    IF p_clash = 'keep' THEN
        RETURN false;
    END IF;
    SELECT t.no INTO v_no
      FROM taskyard.tasks AS t
           JOIN taskyard.routes AS k ON k.no = t.route
           JOIN taskyard.routes AS n ON n.no = p_route AND n.kind = k.kind
     WHERE t.id = p_id;
    RETURN FOUND AND taskyard.change_waiting(
        v_no, p_payload, p_trace, CASE p_clash WHEN 'debounce' THEN p_run_at END, p_joined);
END
$$;

-- keep_dependencies: the tasks that these depend on are not pruned before this transaction has ended.
CREATE OR REPLACE FUNCTION taskyard.keep_dependencies(p_depends text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM taskyard.tasks AS t
      WHERE t.id = ANY (ARRAY(
                SELECT DISTINCT k.id FROM unnest(p_depends) AS v (depends)
                       CROSS JOIN LATERAL unnest(string_to_array(v.depends, E'\x1f')) AS k (id)))
      ORDER BY t.no FOR KEY SHARE;
END
$$;

-- unknown_dependency: the first task that one of these depends on and that is neither there nor earlier in
-- the call. A task that is known already depends on what it depended on.
CREATE OR REPLACE FUNCTION taskyard.unknown_dependency(p_id text[], p_depends text[]) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT k.id
          FROM unnest(p_id, p_depends) WITH ORDINALITY AS v (id, depends, at)
               CROSS JOIN LATERAL unnest(string_to_array(v.depends, E'\x1f')) WITH ORDINALITY AS k (id, nth)
         WHERE NOT EXISTS (SELECT 1 FROM taskyard.tasks AS t WHERE t.id = k.id)
           AND NOT coalesce(array_position(p_id, k.id) < v.at, false)
           AND NOT EXISTS (SELECT 1 FROM taskyard.tasks AS t WHERE t.id = v.id)
           AND array_position(p_id, v.id) = v.at
         ORDER BY v.at, k.nth LIMIT 1);
END
$$;

-- lock_lanes: those in which order or depth must be exact, before any number is taken.
CREATE OR REPLACE FUNCTION taskyard.lock_lanes(p_lane integer[], p_group text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_one record;
BEGIN
    FOR v_one IN
        SELECT l.no FROM taskyard.lanes AS l
         WHERE l.no = ANY (p_lane) AND (l.lane_order = 'fifo' OR l.max_depth IS NOT NULL) ORDER BY l.no
    LOOP
        PERFORM taskyard.lock_lane(v_one.no);
    END LOOP;
    FOR v_one IN
        SELECT DISTINCT u.lane, hashtext(coalesce(u.grp, '')) & 15 AS share
          FROM unnest(p_lane, p_group) AS u (lane, grp)
               JOIN taskyard.lanes AS l ON l.no = u.lane AND l.lane_order = 'fair'
         ORDER BY u.lane, share
    LOOP
        PERFORM taskyard.lock_group(v_one.lane, v_one.share);
    END LOOP;
END
$$;

-- enqueue: save these tasks; one whose id or dedup key is taken is left out and named with the task
-- that stands in its way (and whether that one was changed); one that is refused is told why. p_lane and
-- p_route point into the lists of names; lists inside (keys, requires, depends) are joined by the unit
-- separator, which no name contains. p_joined: the transaction is one of the caller's and may last, so no
-- lock is taken that others wait for if it can be helped.
CREATE OR REPLACE FUNCTION taskyard.enqueue(
    p_clock bigint, p_by_no bigint, p_by_attempt integer, p_by_lease bigint,
    p_lanes text[], p_kinds text[], p_requires text[],
    p_id text[], p_lane integer[], p_route integer[], p_priority smallint[], p_max_charged integer[],
    p_timeout bigint[], p_payload text[], p_run_at bigint[], p_delay bigint[], p_deadline bigint[],
    p_keys text[], p_group text[], p_dedup text[], p_until text[], p_clash text[], p_refuse boolean[],
    p_depends text[], p_on_failure text[], p_joined boolean, p_trace text[],
    OUT o_stale boolean, OUT o_unknown text, OUT o_left_out bigint[], OUT o_clash text[],
    OUT o_changed boolean[], OUT o_refused bigint[], OUT o_why text[])
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now     bigint;
    v_lanes   integer[];
    v_routes  integer[];
    v_lane    integer[];
    v_ordered integer[];
    v_special boolean;
    v_nos     bigint[];
    v_won     bigint[];
    v_full    text[];
    v_wait    text;
    v_saved   bigint;
    v_queued  taskyard.entrant[];
    v_each    boolean;
    v_new     boolean;
BEGIN
    o_stale := false;
    SELECT l.o_numbers, l.o_particular INTO v_lanes, v_special FROM taskyard.lane_numbers(p_lanes) AS l;
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
    -- Who is left out or refused leaves a dedup key or a place to the next: only one after the other tells.
    -- enqueue_each comes back with each of them and without clashes, when it has looked at it.
    v_each := p_clash IS NOT NULL AND (
           coalesce(true = ANY (p_refuse), false)
           OR cardinality(array_remove(array_remove(p_clash, NULL), 'keep')) > 0
           OR cardinality(array_remove(p_dedup, NULL)) > 0
              AND (cardinality(array_remove(p_depends, NULL)) > 0
                   OR (SELECT count(DISTINCT u.id) FROM unnest(p_id) AS u (id)) < cardinality(p_id)));
    IF cardinality(array_remove(p_depends, NULL)) > 0 THEN
        PERFORM taskyard.keep_dependencies(p_depends);
        IF NOT v_each THEN
            o_unknown := taskyard.unknown_dependency(p_id, p_depends);
            IF o_unknown IS NOT NULL THEN
                RETURN;
            END IF;
        END IF;
    END IF;
    IF v_new THEN
        PERFORM taskyard.make_names(p_lanes, p_kinds, p_requires);
        SELECT l.o_numbers, l.o_particular INTO v_lanes, v_special FROM taskyard.lane_numbers(p_lanes) AS l;
        v_routes := taskyard.route_numbers(p_kinds, p_requires);
    END IF;
    v_ordered := '{}';
    IF v_special THEN
        v_lane := ARRAY(SELECT v_lanes[u.lane] FROM unnest(p_lane) WITH ORDINALITY AS u (lane, at) ORDER BY u.at);
        PERFORM taskyard.lock_lanes(v_lane, p_group);
        v_ordered := ARRAY(SELECT l.no FROM taskyard.lanes AS l WHERE l.no = ANY (v_lanes) AND l.ordered);
        v_each := v_each OR p_clash IS NOT NULL AND EXISTS (
            SELECT 1
              FROM taskyard.lanes AS l
                   CROSS JOIN LATERAL (SELECT count(*) AS n FROM unnest(v_lane) AS u (lane)
                                        WHERE u.lane = l.no) AS here
             WHERE l.no = ANY (v_lanes) AND l.max_depth IS NOT NULL
               AND taskyard.lane_depth(l.no, l.max_depth) + here.n > l.max_depth);
    END IF;
    PERFORM taskyard.make_queues(array_agg(q.route), array_agg(q.lane), array_agg(q.priority))
       FROM (SELECT DISTINCT v_routes[u.route] AS route, v_lanes[u.lane] AS lane, u.priority
               FROM unnest(p_route, p_lane, p_priority) AS u (route, lane, priority)) AS q
      WHERE NOT q.lane = ANY (v_ordered);
    v_now := taskyard.moment(p_clock);
    IF v_each THEN
        BEGIN
            SELECT e.* INTO o_left_out, o_clash, o_changed, o_refused, o_why
              FROM taskyard.enqueue_each(
                       p_clock, v_lanes, v_routes, p_lanes, p_kinds, p_requires, p_id, p_lane, p_route,
                       p_priority, p_max_charged, p_timeout, p_payload, p_run_at, p_delay, p_deadline, p_keys,
                       p_group, p_dedup, p_until, p_clash, p_refuse, p_depends, p_on_failure, p_joined,
                       p_trace) AS e;
        EXCEPTION WHEN SQLSTATE 'TY001' THEN
            -- What was saved before it came to that is undone, and the caller's transaction goes on.
            o_unknown := SQLERRM;
        END;
        RETURN;
    END IF;
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
        v_full := taskyard.full_keys(v_now, p_keys);
        IF v_full IS NOT NULL THEN
            -- Looked at again in a statement after the one that locked: it sees what the last holder did.
            IF taskyard.try_lock_room() THEN
                v_wait := taskyard.wait_at_most('200ms');  -- a caller may be taking one of these ids
                v_full := taskyard.full_keys(v_now, p_keys);
            ELSE
                v_full := NULL;
            END IF;
        END IF;
    END IF;

    WITH given AS MATERIALIZED (
        SELECT u.no, u.id, v_lanes[u.lane] AS lane, v_routes[u.route] AS route, u.priority, u.max_charged,
               u.timeout, u.payload, coalesce(u.run_at, v_now + coalesce(u.delay, 0)) AS run_at, u.deadline,
               string_to_array(u.keys, E'\x1f') AS keys, u.grp, u.dedup, u.until,
               CASE WHEN u.depends IS NOT NULL THEN u.on_failure END AS on_failure, u.trace
          FROM unnest(v_nos, p_id, p_lane, p_route, p_priority, p_max_charged, p_timeout, p_payload,
                      p_run_at, p_delay, p_deadline, p_keys, p_group, p_dedup, p_until, p_depends, p_on_failure,
                      p_trace)
               AS u (no, id, lane, route, priority, max_charged, timeout, payload, run_at, delay, deadline,
                     keys, grp, dedup, until, depends, on_failure, trace)
    ), saved AS (
        INSERT INTO taskyard.tasks (no, seq, timeout, created_at, run_at, deadline, lane, route, max_charged,
                                    priority, id, payload, keys, grp, dedup, dedup_until, on_failure,
                                    trace)
        SELECT g.no, g.no, g.timeout, v_now, g.run_at, g.deadline, g.lane, g.route, g.max_charged,
               g.priority, g.id, g.payload, g.keys, g.grp, g.dedup, g.until, g.on_failure, g.trace
          FROM given AS g
         WHERE g.dedup IS NULL OR g.no = ANY (v_won)
            ON CONFLICT (id) DO NOTHING
        RETURNING no, lane, route, priority, run_at, deadline, keys, dedup, on_failure
    ), sorted AS (
        SELECT s.*, s.run_at <= v_now AND s.on_failure IS NULL AS due, s.lane = ANY (v_ordered) AS ordered,
               CASE WHEN s.keys IS NOT NULL AND v_full IS NOT NULL AND s.keys && v_full
                    THEN (SELECT k.key FROM unnest(s.keys) WITH ORDINALITY AS k (key, at)
                           WHERE k.key = ANY (v_full) ORDER BY k.at LIMIT 1) END AS full_key
          FROM saved AS s
    ), queued AS (
        INSERT INTO taskyard.ready (seq, no, lane, route, priority, special, reason, keys, dedup, deadline)
        SELECT s.no, s.no, s.lane, s.route, s.priority, s.keys IS NOT NULL, 'created', s.keys, s.dedup,
               s.deadline
          FROM sorted AS s WHERE s.due AND s.full_key IS NULL AND NOT s.ordered
    ), parked AS (
        INSERT INTO taskyard.parked (key, seq, no, lane, route, priority, special, reason, keys, dedup, deadline)
        SELECT s.full_key, s.no, s.no, s.lane, s.route, s.priority, true, 'created', s.keys, s.dedup,
               s.deadline
          FROM sorted AS s WHERE s.due AND s.full_key IS NOT NULL AND NOT s.ordered
    ), waits AS (
        INSERT INTO taskyard.pending (no, run_at, deadline, lane, reason)
        SELECT s.no, CASE WHEN s.on_failure IS NULL THEN s.run_at ELSE 9223372036854775807 END, s.deadline,
               s.lane, 'created'
          FROM sorted AS s WHERE NOT s.due
    ), named AS (
        INSERT INTO taskyard.task_keys (key, no)
        SELECT k.key, s.no FROM sorted AS s CROSS JOIN LATERAL unnest(s.keys) AS k (key)
         WHERE s.keys IS NOT NULL
    )
    SELECT count(*),
           array_agg(ROW(s.no, 0, 0, 0, 'created', NULL, NULL)::taskyard.entrant ORDER BY s.no)
               FILTER (WHERE s.ordered AND s.due)
      INTO v_saved, v_queued FROM sorted AS s;
    IF v_queued IS NOT NULL THEN
        PERFORM taskyard.queue_up(v_now, v_queued, false);
    END IF;
    IF v_wait IS NOT NULL THEN
        PERFORM taskyard.wait_at_most(v_wait);
    END IF;
    IF v_full IS NOT NULL THEN
        PERFORM taskyard.watch_keys(v_now, v_full);
    END IF;
    IF cardinality(array_remove(p_depends, NULL)) > 0 THEN
        PERFORM taskyard.save_dependencies(v_now, p_clock, v_nos, p_depends, p_joined);
    END IF;

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

-- enqueue_each: one after the other, so that each finds what those before it have left.
CREATE OR REPLACE FUNCTION taskyard.enqueue_each(
    p_clock bigint, p_lane_nos integer[], p_route_nos integer[],
    p_lanes text[], p_kinds text[], p_requires text[],
    p_id text[], p_lane integer[], p_route integer[], p_priority smallint[], p_max_charged integer[],
    p_timeout bigint[], p_payload text[], p_run_at bigint[], p_delay bigint[], p_deadline bigint[],
    p_keys text[], p_group text[], p_dedup text[], p_until text[], p_clash text[], p_refuse boolean[],
    p_depends text[], p_on_failure text[], p_joined boolean, p_trace text[],
    OUT o_left_out bigint[], OUT o_clash text[], OUT o_changed boolean[], OUT o_refused bigint[],
    OUT o_why text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_given   text[] := '{}';  -- ids that stand for those of other tasks
    v_meant   text[] := '{}';
    v_not     text[] := '{}';  -- ids that were refused
    v_depends text[];
    v_unknown text;
    v_id      text;
    v_why     text;
    v_changed boolean;
BEGIN
    FOR i IN 1..cardinality(p_id) LOOP
        v_changed := false;
        v_depends := string_to_array(p_depends[i], E'\x1f');
        SELECT t.id INTO v_id FROM taskyard.tasks AS t WHERE t.id = p_id[i];
        IF v_id IS NULL AND p_dedup[i] IS NOT NULL THEN
            SELECT t.id INTO v_id FROM taskyard.dedup AS d JOIN taskyard.tasks AS t ON t.no = d.no
             WHERE d.key = p_dedup[i];
        END IF;
        IF v_id IS NULL THEN
            v_depends := ARRAY(SELECT coalesce(v_meant[array_position(v_given, d.id)], d.id)
                                 FROM unnest(v_depends) WITH ORDINALITY AS d (id, at) ORDER BY d.at);
            v_unknown := (SELECT d.id FROM unnest(v_depends) WITH ORDINALITY AS d (id, at)
                           WHERE d.id <> ALL (v_not)
                             AND NOT EXISTS (SELECT 1 FROM taskyard.tasks AS t WHERE t.id = d.id)
                           ORDER BY d.at LIMIT 1);
            IF v_unknown IS NOT NULL THEN
                RAISE EXCEPTION '%', v_unknown USING ERRCODE = 'TY001';
            END IF;
            v_why := CASE
                WHEN v_depends && v_not THEN 'it depends on a task that was refused'
                -- What is given up when it is saved waits for nothing, so nothing is in its way.
                WHEN p_on_failure[i] = 'cancel' AND taskyard.ended_badly(v_depends) THEN NULL
                ELSE coalesce(taskyard.no_place(p_lane_nos[p_lane[i]]),
                              CASE WHEN p_refuse[i] THEN taskyard.key_held(p_keys[i]) END) END;
            IF v_why IS NOT NULL THEN
                o_refused := o_refused || i::bigint;
                o_why := o_why || v_why;
                v_not := v_not || p_id[i];
                CONTINUE;
            END IF;
            SELECT e.o_clash[1] INTO v_id
              FROM taskyard.enqueue(
                       p_clock, NULL, NULL, 0, p_lanes, p_kinds, p_requires, p_id[i:i], p_lane[i:i], p_route[i:i],
                       p_priority[i:i], p_max_charged[i:i], p_timeout[i:i], p_payload[i:i], p_run_at[i:i],
                       p_delay[i:i], p_deadline[i:i], p_keys[i:i], p_group[i:i], p_dedup[i:i], p_until[i:i],
                       NULL, NULL, ARRAY[nullif(array_to_string(v_depends, E'\x1f'), '')], p_on_failure[i:i],
                       p_joined, p_trace[i:i]) AS e;
            CONTINUE WHEN v_id IS NULL;
        END IF;
        IF v_id <> p_id[i] THEN
            v_given := v_given || p_id[i];
            v_meant := v_meant || v_id;
            v_changed := taskyard.clash(v_id, p_clash[i], p_route_nos[p_route[i]], p_payload[i], p_trace[i],
                                        coalesce(p_run_at[i], taskyard.moment(p_clock) + coalesce(p_delay[i], 0)), p_joined);
        END IF;
        o_left_out := o_left_out || i::bigint;
        o_clash := o_clash || v_id;
        o_changed := o_changed || v_changed;
    END LOOP;
END
$$;

-- ended_badly: whether one of these has ended otherwise than completed.
CREATE OR REPLACE FUNCTION taskyard.ended_badly(p_ids text[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM taskyard.tasks AS t JOIN taskyard.done AS d ON d.no = t.no
                    WHERE t.id = ANY (p_ids) AND d.state <> 'completed');
END
$$;

-- no_place: why a lane takes no more; NULL if it does. Needs the lock of the lane.
CREATE OR REPLACE FUNCTION taskyard.no_place(p_lane integer) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lane  record;
    v_depth integer;
BEGIN
    SELECT l.name, l.max_depth INTO v_lane FROM taskyard.lanes AS l WHERE l.no = p_lane;
    IF v_lane.max_depth IS NULL THEN
        RETURN NULL;
    END IF;
    v_depth := taskyard.lane_depth(p_lane, v_lane.max_depth);
    IF v_depth < v_lane.max_depth THEN
        RETURN NULL;
    END IF;
    RETURN format('lane %s is full: %s tasks wait, and its max depth is %s', v_lane.name, v_depth, v_lane.max_depth);
END
$$;

-- key_held: which of these keys has no place left; NULL if all have.
CREATE OR REPLACE FUNCTION taskyard.key_held(p_keys text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT 'key ' || k.key || ' is held'
          FROM unnest(string_to_array(p_keys, E'\x1f')) WITH ORDINALITY AS k (key, at)
         WHERE taskyard.key_places(k.key) <= 0 ORDER BY k.at LIMIT 1);
END
$$;
