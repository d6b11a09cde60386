-- tasks_json: whole tasks, in the order of these numbers. A task is in one of the places at a time,
-- and one statement sees them all at the same moment.
CREATE OR REPLACE FUNCTION taskyard.tasks_json(p_nos bigint[]) RETURNS json
LANGUAGE plpgsql STABLE
{careful_plans} AS $$
BEGIN
    RETURN (
        SELECT coalesce(json_agg(json_build_object(
                   'no', t.no, 'id', t.id, 'kind', k.kind, 'lane', l.name, 'priority', t.priority,
                   'seq', t.seq, 'payload', t.payload, 'state', s.state, 'reason', s.reason,
                   'keys', coalesce(t.keys, '{}'), 'group', coalesce(t.grp, ''), 'dedup', t.dedup,
                   'requires', k.requires,
                   'depends_on', CASE WHEN t.on_failure IS NULL THEN '[]' ELSE (
                       SELECT json_agg(d.on_id ORDER BY d.place) FROM taskyard.dependencies AS d
                        WHERE d.no = t.no) END,
                   'on_failure', coalesce(t.on_failure, 'cancel'),
                   'waits_for', CASE WHEN t.on_failure IS NULL THEN 0 ELSE (
                       SELECT w.waits_for FROM taskyard.waits AS w WHERE w.no = t.no) END,
                   'attempt', s.attempt, 'charged', s.charged,
                   'max_charged', t.max_charged, 'losses', s.losses,
                   'timeout', t.timeout / 1e6::double precision, 'created_at', t.created_at,
                   'run_at', t.run_at, 'deadline', t.deadline, 'started_at', s.started_at,
                   'ended_at', s.ended_at, 'node', s.node, 'asked', s.asked, 'parked_on', s.parked_on,
                   'progress', (SELECT g.progress::json FROM taskyard.progress AS g WHERE g.no = t.no),
                   'checkpoint', (SELECT c.checkpoint FROM taskyard.checkpoints AS c WHERE c.no = t.no),
                   'result', s.result,
                   'failures', (
                       SELECT coalesce(json_agg(json_build_object(
                                  'attempt', f.attempt, 'reason', f.reason, 'at', f.at,
                                  'started_at', f.started_at, 'node', f.node,
                                  'error', f.error::json) ORDER BY f.attempt), '[]')
                         FROM taskyard.failures AS f WHERE f.no = t.no),
                   'trace', t.trace) ORDER BY v.at), '[]')
          FROM unnest(p_nos) WITH ORDINALITY AS v (no, at)
               CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = v.no OFFSET 0) AS t
               CROSS JOIN LATERAL (SELECT * FROM taskyard.routes AS a WHERE a.no = t.route OFFSET 0) AS k
               CROSS JOIN LATERAL (SELECT * FROM taskyard.lanes AS a WHERE a.no = t.lane OFFSET 0) AS l
               CROSS JOIN LATERAL (
                   SELECT d.state, d.reason, d.attempt, d.charged, d.losses, d.started_at, d.ended_at, d.node,
                          NULL AS asked, NULL AS parked_on, d.result
                     FROM taskyard.done AS d WHERE d.no = t.no
                   UNION ALL
                   SELECT 'running', 'claimed', r.attempt, r.charged, r.losses, r.started_at, NULL,
                          (SELECT n.id FROM taskyard.nodes AS n WHERE n.lease = r.lease), r.asked, NULL, NULL
                     FROM taskyard.running AS r WHERE r.no = t.no
                   UNION ALL
                   SELECT 'pending', p.reason, p.attempt, p.charged, p.losses, NULL, NULL, p.node, NULL, NULL, NULL
                     FROM taskyard.pending AS p WHERE p.no = t.no
                   UNION ALL
                   SELECT 'queued', q.reason, q.attempt, q.charged, q.losses, NULL, NULL, q.node, NULL, NULL, NULL
                     FROM taskyard.ready AS q
                    WHERE q.lane = t.lane AND q.route = t.route
                      AND q.priority = ANY (ARRAY[0, t.priority]::smallint[]) AND q.seq = t.seq
                   UNION ALL
                   SELECT 'queued', w.reason, w.attempt, w.charged, w.losses, NULL, NULL, w.node, NULL, w.key, NULL
                     FROM taskyard.parked AS w
                    WHERE w.key = ANY (t.keys) AND w.lane = t.lane AND w.route = t.route
                      AND w.priority = ANY (ARRAY[0, t.priority]::smallint[]) AND w.seq = t.seq
                   UNION ALL
                   SELECT 'paused', p.reason, p.attempt, p.charged, p.losses, NULL, NULL, p.node, NULL, NULL, NULL
                     FROM taskyard.paused AS p WHERE p.no = t.no
                   LIMIT 1) AS s);
END
$$;

-- lines_json: tasks as a list shows them, in the order of these numbers, with payloads up to p_short bytes.
CREATE OR REPLACE FUNCTION taskyard.lines_json(p_nos bigint[], p_short integer) RETURNS json
LANGUAGE plpgsql STABLE
{careful_plans} AS $$
BEGIN
    RETURN (
        SELECT coalesce(json_agg(json_build_object(
                   'no', t.no, 'id', t.id, 'kind', k.kind, 'lane', l.name, 'priority', t.priority,
                   'state', s.state, 'reason', s.reason, 'keys', coalesce(t.keys, '{}'),
                   'group', coalesce(t.grp, ''), 'attempt', s.attempt, 'created_at', t.created_at,
                   'run_at', t.run_at, 'deadline', t.deadline, 'started_at', s.started_at,
                   'ended_at', s.ended_at, 'node', s.node, 'asked', s.asked, 'parked_on', s.parked_on,
                   'progress', (SELECT g.progress::json FROM taskyard.progress AS g WHERE g.no = t.no),
                   'payload', CASE WHEN octet_length(t.payload) <= p_short THEN t.payload END,
                   'error', CASE WHEN s.state IN ('failed', 'pending') THEN (
                       SELECT CASE WHEN f.error <> 'null' THEN json_build_object(
                                  'type', f.error::json -> 'type', 'message', f.error::json -> 'message') END
                         FROM taskyard.failures AS f WHERE f.no = t.no ORDER BY f.attempt DESC LIMIT 1) END)
                   ORDER BY v.at), '[]')
          FROM unnest(p_nos) WITH ORDINALITY AS v (no, at)
               CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = v.no OFFSET 0) AS t
               CROSS JOIN LATERAL (SELECT * FROM taskyard.routes AS a WHERE a.no = t.route OFFSET 0) AS k
               CROSS JOIN LATERAL (SELECT * FROM taskyard.lanes AS a WHERE a.no = t.lane OFFSET 0) AS l
               CROSS JOIN LATERAL (
                   SELECT d.state, d.reason, d.attempt, d.started_at, d.ended_at, d.node,
                          NULL AS asked, NULL AS parked_on
                     FROM taskyard.done AS d WHERE d.no = t.no
                   UNION ALL
                   SELECT 'running', 'claimed', r.attempt, r.started_at, NULL,
                          (SELECT n.id FROM taskyard.nodes AS n WHERE n.lease = r.lease), r.asked, NULL
                     FROM taskyard.running AS r WHERE r.no = t.no
                   UNION ALL
                   SELECT 'pending', p.reason, p.attempt, NULL, NULL, p.node, NULL, NULL
                     FROM taskyard.pending AS p WHERE p.no = t.no
                   UNION ALL
                   SELECT 'queued', q.reason, q.attempt, NULL, NULL, q.node, NULL, NULL
                     FROM taskyard.ready AS q
                    WHERE q.lane = t.lane AND q.route = t.route
                      AND q.priority = ANY (ARRAY[0, t.priority]::smallint[]) AND q.seq = t.seq
                   UNION ALL
                   SELECT 'queued', w.reason, w.attempt, NULL, NULL, w.node, NULL, w.key
                     FROM taskyard.parked AS w
                    WHERE w.key = ANY (t.keys) AND w.lane = t.lane AND w.route = t.route
                      AND w.priority = ANY (ARRAY[0, t.priority]::smallint[]) AND w.seq = t.seq
                   UNION ALL
                   SELECT 'paused', p.reason, p.attempt, NULL, NULL, p.node, NULL, NULL
                     FROM taskyard.paused AS p WHERE p.no = t.no
                   LIMIT 1) AS s);
END
$$;

-- endings: those of these tasks that have ended; the error of a failed one is that of its last attempt.
CREATE OR REPLACE FUNCTION taskyard.endings(p_ids text[]) RETURNS json
LANGUAGE plpgsql STABLE
{careful_plans} AS $$
BEGIN
    RETURN (
        SELECT coalesce(json_agg(json_build_object(
                   'id', t.id, 'state', d.state, 'result', d.result,
                   'error', (SELECT f.error::json
                               FROM taskyard.failures AS f WHERE f.no = t.no AND d.state = 'failed'
                              ORDER BY f.attempt DESC LIMIT 1))), '[]')
          FROM unnest(p_ids) AS v (id)
               CROSS JOIN LATERAL (SELECT a.no, a.id FROM taskyard.tasks AS a WHERE a.id = v.id OFFSET 0) AS t
               CROSS JOIN LATERAL (SELECT * FROM taskyard.done AS a WHERE a.no = t.no OFFSET 0) AS d);
END
$$;

-- facts: everything a waiting task waits for, as it is now.
CREATE OR REPLACE FUNCTION taskyard.facts(p_clock bigint, p_id text, p_far_back integer) RETURNS json
LANGUAGE plpgsql STABLE
{careful_plans} AS $$
DECLARE
    v_now  bigint := taskyard.moment(p_clock);
    t      taskyard.tasks%ROWTYPE;
    v_lane taskyard.lanes%ROWTYPE;
BEGIN
    SELECT * INTO t FROM taskyard.tasks AS a WHERE a.id = p_id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT * INTO v_lane FROM taskyard.lanes AS l WHERE l.no = t.lane;
    RETURN json_build_object(
        'now', v_now,
        'task', taskyard.tasks_json(ARRAY[t.no]) -> 0,
        'yard_paused', taskyard.yard_paused(v_now),
        'lane', json_build_object(
            'name', v_lane.name, 'capacity', v_lane.capacity, 'order', v_lane.lane_order,
            'paused', v_lane.paused AND coalesce(v_lane.paused_until > v_now, true),
            'paused_reason', v_lane.paused_reason, 'paused_until', v_lane.paused_until,
            'running', (SELECT count(*) FROM taskyard.running AS r WHERE r.lane = t.lane)),
        'lane_opens_at', taskyard.next_token(
            v_now, v_lane.rate_interval, v_lane.rate_burst, taskyard.full_at(t.lane, '')),
        'full_keys', (SELECT coalesce(json_agg(json_build_object(
                                 'name', k.key, 'limit', r.o_limit,
                                 'opens_at', taskyard.next_token(
                                     v_now, r.o_interval, r.o_burst, taskyard.full_at(0, k.key)),
                                 'holders', (SELECT coalesce(json_agg(o.id ORDER BY o.no), '[]')
                                               FROM taskyard.held AS h JOIN taskyard.tasks AS o ON o.no = h.no
                                              WHERE h.key = k.key)) ORDER BY k.at), '[]')
                        FROM unnest(t.keys) WITH ORDINALITY AS k (key, at)
                             CROSS JOIN LATERAL taskyard.key_rule(k.key) AS r
                       WHERE taskyard.key_room(v_now, k.key) <= 0),
        'nodes', (SELECT coalesce(json_agg(json_build_object('state', n.state, 'free', n.slots - (
                             SELECT count(*) FROM taskyard.running AS r WHERE r.lease = n.lease))), '[]')
                    FROM taskyard.nodes AS n
                   WHERE n.until > v_now
                     AND EXISTS (SELECT 1 FROM taskyard.node_routes AS s
                                  WHERE s.lease = n.lease AND s.route = t.route)
                     AND NOT EXISTS (SELECT 1 FROM taskyard.nodes AS o
                                      WHERE o.id = n.id AND o.lease > n.lease)),
        'unmet', (SELECT coalesce(json_agg(u.on_id), '[]')
                    FROM (SELECT d.on_id FROM taskyard.dependencies AS d
                           WHERE d.no = t.no AND NOT d.met ORDER BY d.place LIMIT 100) AS u),
        'head', CASE WHEN v_lane.lane_order = 'fifo' THEN (
                    SELECT o.id
                      FROM taskyard.routes AS r
                           CROSS JOIN LATERAL (
                               SELECT q.seq, q.no FROM taskyard.ready AS q
                                WHERE q.lane = t.lane AND q.route = r.no AND q.priority = 0
                                ORDER BY q.seq LIMIT 1) AS h
                           JOIN taskyard.tasks AS o ON o.no = h.no
                     WHERE h.seq < t.seq ORDER BY h.seq LIMIT 1) END,
        'before', taskyard.before(t, v_lane, p_far_back));
END
$$;

-- next_token: when a rate lets the next one start; NULL if it does now, or there is none.
CREATE OR REPLACE FUNCTION taskyard.next_token(
    p_now bigint, p_interval bigint, p_burst integer, p_full_at bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN taskyard.tokens(p_interval, p_burst, p_full_at, p_now) = 0
                THEN taskyard.opens_at(p_interval, p_burst, p_full_at, p_now) END;
END
$$;

-- rank_of: what a queued task's lane orders it by before its seq (domain/order.py).
CREATE OR REPLACE FUNCTION taskyard.rank_of(t taskyard.tasks) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lane taskyard.lanes%ROWTYPE;
BEGIN
    SELECT * INTO v_lane FROM taskyard.lanes AS l WHERE l.no = t.lane;
    IF NOT v_lane.ranked THEN
        RETURN CASE WHEN v_lane.ordered THEN 0 ELSE t.priority END;
    END IF;
    RETURN coalesce(
        (SELECT r.rank FROM taskyard.ready AS r
          WHERE r.lane = t.lane AND r.route = t.route AND r.priority = 0 AND r.seq = t.seq),
        (SELECT w.rank FROM taskyard.parked AS w
          WHERE w.key = ANY (t.keys) AND w.lane = t.lane AND w.route = t.route AND w.priority = 0
            AND w.seq = t.seq), 0);
END
$$;

-- before: how many ready tasks of its lane come before a task, at most p_far_back.
CREATE OR REPLACE FUNCTION taskyard.before(
    t taskyard.tasks, p_lane taskyard.lanes, p_far_back integer) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_priority smallint := CASE WHEN p_lane.ordered THEN 0 ELSE t.priority END;
    v_rank     bigint;
BEGIN
    IF p_lane.ranked THEN
        v_rank := taskyard.rank_of(t);
        RETURN (
            SELECT count(*) FROM (
                SELECT 1 FROM taskyard.routes AS r
                       CROSS JOIN LATERAL (
                           SELECT 1 FROM taskyard.ready AS o
                            WHERE o.lane = t.lane AND o.route = r.no AND o.rank IS NOT NULL
                              AND (o.rank, o.seq) < (v_rank, t.seq) LIMIT p_far_back) AS o
                 LIMIT p_far_back) AS b);
    END IF;
    RETURN (
        SELECT count(*) FROM (
            SELECT 1 FROM taskyard.routes AS r
                   CROSS JOIN LATERAL (
                       SELECT 1 FROM taskyard.ready AS o
                        WHERE o.lane = t.lane AND o.route = r.no
                          AND (o.priority, o.seq) < (v_priority, t.seq) OFFSET 0) AS o
             LIMIT p_far_back) AS b);
END
$$;
