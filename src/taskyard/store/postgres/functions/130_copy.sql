-- import_tasks: take tasks over as they are; what is here already stays. The lists of names are
-- those of enqueue.
CREATE OR REPLACE FUNCTION taskyard.import_tasks(
    p_lanes text[], p_kinds text[], p_requires text[], p_tasks json) RETURNS void
LANGUAGE plpgsql AS $$
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
                   progress json, failures json)
               JOIN taskyard.lanes AS l ON l.name = g.lane
               JOIN taskyard.routes AS r
                 ON r.kind = g.kind AND r.requires = string_to_array(g.requires, E'\x1f')
    ), saved AS (
        INSERT INTO taskyard.tasks (no, seq, timeout, created_at, run_at, deadline, lane, route, max_charged,
                                    priority, id, payload, keys, grp, dedup, dedup_until)
        SELECT no, seq, timeout, created_at, run_at, deadline, lane_no, route_no, max_charged,
               priority, id, payload, keys, grp, dedup, dedup_until
          FROM given
            ON CONFLICT DO NOTHING
        RETURNING no
    ), lines AS (
        INSERT INTO taskyard.queues (route, lane, priority)
        SELECT DISTINCT g.route_no, g.lane_no, g.priority FROM given AS g
         WHERE NOT EXISTS (SELECT 1 FROM taskyard.queues AS k
                            WHERE k.route = g.route_no AND k.lane = g.lane_no AND k.priority = g.priority)
    ), fresh AS MATERIALIZED (
        SELECT g.* FROM given AS g JOIN saved AS s ON s.no = g.no
    ), queued AS (
        INSERT INTO taskyard.ready (seq, no, lane, route, attempt, charged, losses, priority, special,
                                    reason, keys, dedup, deadline, node)
        SELECT seq, no, lane_no, route_no, attempt, charged, losses, priority,
               keys IS NOT NULL OR reason = 'rescued', reason, keys, dedup, deadline, node
          FROM fresh WHERE state = 'queued'
    ), waits AS (
        INSERT INTO taskyard.pending (no, run_at, deadline, lane, attempt, charged, losses, reason, node)
        SELECT no, run_at, deadline, lane_no, attempt, charged, losses, reason, node
          FROM fresh WHERE state = 'pending'
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
    )
    INSERT INTO taskyard.failures (no, attempt, reason, at, started_at, node, error)
    SELECT f.no, a.attempt, a.reason, a.at, a.started_at, a.node, coalesce(a.error::text, 'null')
      FROM fresh AS f
           CROSS JOIN LATERAL json_to_recordset(f.failures) AS a (
               attempt integer, reason text, at bigint, started_at bigint, node text, error json);
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

-- import_settings: take over lanes, rules and the audit trail, oldest first; a number that is taken
-- is one that was copied before.
CREATE OR REPLACE FUNCTION taskyard.import_settings(p_lanes json, p_rules json, p_audit json) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskyard.lock_room();
    INSERT INTO taskyard.lanes (name, capacity, paused, paused_reason, lane_order)
    SELECT g.name, g.capacity, g.paused, g.paused_reason, g."order"
      FROM json_to_recordset(p_lanes) AS g (
               name text, capacity integer, paused boolean, paused_reason text, "order" text)
        ON CONFLICT (name) DO UPDATE
       SET capacity = excluded.capacity, paused = excluded.paused,
           paused_reason = excluded.paused_reason, lane_order = excluded.lane_order;
    INSERT INTO taskyard.key_rules (pattern, prefix, key_limit)
    SELECT g.pattern, CASE WHEN g.pattern LIKE '%*' THEN left(g.pattern, -1) END, g."limit"
      FROM json_to_recordset(p_rules) AS g (pattern text, "limit" integer)
        ON CONFLICT (pattern) DO UPDATE SET key_limit = excluded.key_limit;
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
