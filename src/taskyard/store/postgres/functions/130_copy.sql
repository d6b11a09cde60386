-- import_tasks: take tasks over as they are; what is here already stays. The lists of names are
-- those of enqueue.
CREATE OR REPLACE FUNCTION taskyard.import_tasks(
    p_lanes text[], p_kinds text[], p_requires text[], p_tasks json) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_new    bigint[];
    v_queued taskyard.entrant[];
    v_well   bigint;
BEGIN
    PERFORM taskyard.lock_room();
    PERFORM taskyard.make_names(p_lanes, p_kinds, p_requires);
    WITH given AS MATERIALIZED (
        SELECT g.*, l.no AS lane_no, r.no AS route_no
          FROM json_to_recordset(p_tasks) AS g (
                   no bigint, id text, kind text, requires text, lane text, priority smallint, seq bigint,
                   payload text, state text, reason text, keys text[], grp text, dedup text,
                   dedup_until text, dedup_kept boolean, attempt integer, charged integer,
                   max_charged integer, losses integer, timeout bigint, created_at bigint, run_at bigint,
                   deadline bigint, started_at bigint, ended_at bigint, node text, result text,
                   rank bigint, progress json, checkpoint text, on_failure text, waits_for integer, depends_on json,
                   failures json, trace text)
               JOIN taskyard.lanes AS l ON l.name = g.lane
               JOIN taskyard.routes AS r
                 ON r.kind = g.kind AND r.requires = string_to_array(g.requires, E'\x1f')
    ), saved AS (
        INSERT INTO taskyard.tasks (no, seq, timeout, created_at, run_at, deadline, lane, route, max_charged,
                                    priority, id, payload, keys, grp, dedup, dedup_until, on_failure,
                                    trace)
        SELECT no, seq, timeout, created_at, run_at, deadline, lane_no, route_no, max_charged,
               priority, id, payload, keys, grp, dedup, dedup_until,
               CASE WHEN json_array_length(depends_on) > 0 THEN on_failure END, trace
          FROM given
            ON CONFLICT DO NOTHING
        RETURNING no
    ), fresh AS MATERIALIZED (
        SELECT g.* FROM given AS g JOIN saved AS s ON s.no = g.no
    ), waits AS (
        INSERT INTO taskyard.pending (no, run_at, deadline, lane, attempt, charged, losses, reason, node)
        SELECT no, CASE WHEN waits_for > 0 THEN 9223372036854775807 ELSE run_at END, deadline, lane_no, attempt,
               charged, losses, reason, node
          FROM fresh WHERE state = 'pending'
    ), rests AS (
        INSERT INTO taskyard.paused (no, attempt, charged, losses, reason, node)
        SELECT no, attempt, charged, losses, reason, node FROM fresh WHERE state = 'paused'
    ), marked AS (
        INSERT INTO taskyard.checkpoints (no, checkpoint)
        SELECT no, checkpoint FROM fresh WHERE checkpoint IS NOT NULL
    ), ended AS (
        INSERT INTO taskyard.done (no, ended_at, started_at, attempt, charged, losses, state, reason, node,
                                   result)
        SELECT no, ended_at, started_at, attempt, charged, losses, state, reason, node, result
          FROM fresh WHERE ended_at IS NOT NULL
    ), kept AS (
        INSERT INTO taskyard.dedup (key, no, until)
        SELECT dedup, no, dedup_until FROM fresh WHERE dedup_kept
    ), named AS (
        INSERT INTO taskyard.task_keys (key, no)
        SELECT k.key, f.no FROM fresh AS f CROSS JOIN LATERAL unnest(f.keys) AS k (key)
    ), come AS (
        INSERT INTO taskyard.progress (no, progress)
        SELECT no, progress::text FROM fresh WHERE progress IS NOT NULL
    ), failed AS (
        INSERT INTO taskyard.failures (no, attempt, reason, at, started_at, node, error)
        SELECT f.no, a.attempt, a.reason, a.at, a.started_at, a.node, coalesce(a.error::text, 'null')
          FROM fresh AS f
               CROSS JOIN LATERAL json_to_recordset(f.failures) AS a (
                   attempt integer, reason text, at bigint, started_at bigint, node text, error json)
    )
    SELECT array_agg(f.no),
           array_agg(ROW(f.no, f.attempt, f.charged, f.losses, f.reason, f.node, f.rank)::taskyard.entrant
                     ORDER BY f.no) FILTER (WHERE f.state = 'queued'),
           count(*) FILTER (WHERE f.state = 'completed')
      INTO v_new, v_queued, v_well FROM fresh AS f;
    PERFORM taskyard.count_completed(v_well);
    PERFORM taskyard.queue_up(0, v_queued, false);
    PERFORM taskyard.import_dependencies(v_new, p_tasks);
    PERFORM taskyard.lock_floors();
    DELETE FROM taskyard.floors;
    -- What comes next comes behind them. Never back: others take numbers meanwhile.
    PERFORM setval('taskyard.seq', m.highest)
       FROM (SELECT max(greatest(g.no, g.seq)) AS highest
               FROM json_to_recordset(p_tasks) AS g (no bigint, seq bigint)) AS m
      WHERE m.highest > nextval('taskyard.seq');
    PERFORM taskyard.tell();
END
$$;

-- import_dependencies: of those of these tasks that have any. Whose end each still waits for comes with it:
-- one that has ended and was given a new life is waited for no more.
CREATE OR REPLACE FUNCTION taskyard.import_dependencies(p_nos bigint[], p_tasks json) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH given AS MATERIALIZED (
        SELECT g.no, g.waits_for, g.depends_on, g.unmet
          FROM json_to_recordset(p_tasks) AS g (no bigint, waits_for integer, depends_on json, unmet text[])
         WHERE g.no = ANY (p_nos) AND json_array_length(g.depends_on) > 0
    ), unmet AS MATERIALIZED (
        SELECT g.no, u.id FROM given AS g CROSS JOIN LATERAL unnest(g.unmet) AS u (id)
    ), waiting AS (
        INSERT INTO taskyard.waits (no, waits_for) SELECT g.no, g.waits_for FROM given AS g
    )
    INSERT INTO taskyard.dependencies (no, place, on_no, met, on_id)
    SELECT g.no, d.place, coalesce(t.no, 0), u.id IS NULL, d.id
      FROM given AS g
           CROSS JOIN LATERAL json_array_elements_text(g.depends_on) WITH ORDINALITY AS d (id, place)
           LEFT JOIN unmet AS u ON u.no = g.no AND u.id = d.id
           LEFT JOIN taskyard.tasks AS t ON t.id = d.id;
END
$$;

-- import_settings: take over lanes, rules, periodic tasks and the audit trail, oldest first; a number that
-- is taken is one that was copied before.
CREATE OR REPLACE FUNCTION taskyard.import_settings(p_lanes json, p_rules json, p_audit json, p_crons json)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskyard.lock_room();
    INSERT INTO taskyard.lanes (name, capacity, paused, paused_reason, paused_until, lane_order, ageing,
                                max_depth, rate, rate_interval, rate_burst)
    SELECT g.name, g.capacity, g.paused, g.paused_reason, g.paused_until, g."order", g.ageing, g.max_depth,
           g.rate, g.rate_interval, g.rate_burst
      FROM json_to_recordset(p_lanes) AS g (
               name text, capacity integer, paused boolean, paused_reason text, paused_until bigint,
               "order" text, ageing bigint, max_depth integer, rate text, rate_interval bigint,
               rate_burst integer)
        ON CONFLICT (name) DO UPDATE
       SET capacity = excluded.capacity, paused = excluded.paused,
           paused_reason = excluded.paused_reason, paused_until = excluded.paused_until,
           lane_order = excluded.lane_order, ageing = excluded.ageing, max_depth = excluded.max_depth,
           rate = excluded.rate, rate_interval = excluded.rate_interval, rate_burst = excluded.rate_burst;
    INSERT INTO taskyard.key_rules (pattern, prefix, key_limit, rate, rate_interval, rate_burst)
    SELECT g.pattern, CASE WHEN g.pattern LIKE '%*' THEN left(g.pattern, -1) END, g."limit", g.rate,
           g.rate_interval, g.rate_burst
      FROM json_to_recordset(p_rules) AS g (
               pattern text, "limit" integer, rate text, rate_interval bigint, rate_burst integer)
        ON CONFLICT (pattern) DO UPDATE
       SET key_limit = excluded.key_limit, rate = excluded.rate, rate_interval = excluded.rate_interval,
           rate_burst = excluded.rate_burst;
    INSERT INTO taskyard.crons (name, cron, next_at, last_at)
    SELECT g.name, g.cron, g.next_at, g.last_at
      FROM json_to_recordset(p_crons) AS g (name text, cron text, next_at bigint, last_at bigint)
        ON CONFLICT (name) DO UPDATE
       SET cron = excluded.cron, next_at = excluded.next_at, last_at = excluded.last_at;
    INSERT INTO taskyard.audit (no, at, actor, action, subject, detail) OVERRIDING SYSTEM VALUE
    SELECT g.no, g.at, g.actor, g.action, g.subject, g.detail
      FROM json_to_recordset(p_audit) AS g (
               no bigint, at bigint, actor text, action text, subject text, detail text)
        ON CONFLICT (no) DO NOTHING;
    PERFORM setval(pg_get_serial_sequence('taskyard.audit', 'no'), (SELECT max(a.no) FROM taskyard.audit AS a))
      WHERE EXISTS (SELECT 1 FROM taskyard.audit);
    PERFORM taskyard.tell();
END
$$;

-- import_buckets: what was taken of the rates of these lanes and keys; nobody waits for them yet.
CREATE OR REPLACE FUNCTION taskyard.import_buckets(p_clock bigint, p_buckets json) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now    bigint;
    v_bucket record;
    v_lane   taskyard.lanes%ROWTYPE;
    v_rule   record;
BEGIN
    PERFORM taskyard.lock_room();
    v_now := taskyard.moment(p_clock);
    FOR v_bucket IN
        SELECT g.* FROM json_to_recordset(p_buckets) AS g (name text, full_at bigint, of_lane boolean)
    LOOP
        IF v_bucket.of_lane THEN
            SELECT * INTO v_lane FROM taskyard.lanes AS l WHERE l.name = v_bucket.name;
            IF v_lane.rate IS NOT NULL THEN
                PERFORM taskyard.set_bucket(v_lane.no, '', v_bucket.full_at, NULL);
                PERFORM taskyard.refit_bucket(v_now, v_lane);
            END IF;
            CONTINUE;
        END IF;
        SELECT * INTO v_rule FROM taskyard.key_rule(v_bucket.name);
        IF v_rule.o_interval IS NULL THEN
            PERFORM taskyard.set_bucket(0, v_bucket.name, v_bucket.full_at, NULL);
        ELSE
            PERFORM taskyard.set_key_bucket(
                v_now, v_bucket.name, v_rule.o_interval, v_rule.o_burst, v_bucket.full_at);
        END IF;
    END LOOP;
END
$$;
