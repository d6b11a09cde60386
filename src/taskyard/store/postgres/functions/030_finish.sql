-- end_alike: what end_attempts does first where all completed ones have the same attempt, lease and result, as
-- nearly all turns have it: they are deleted as they are found. Answers which were accepted, how many of them had
-- started, and the dedup keys and keys they held, for a while joined by a byte that no name of a key may have. The
-- lease is compared so that no index of it is taken for the way.
CREATE OR REPLACE FUNCTION taskyard.end_alike(
    p_now bigint, p_nos bigint[], p_attempt integer, p_lease bigint, p_result text,
    OUT o_accepted bigint[], OUT o_started integer, OUT o_dedup text[], OUT o_keys text[], OUT o_holders bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    v_several boolean;  -- keys of one task
BEGIN
    WITH gone AS (
        DELETE FROM taskyard.running AS r
         WHERE r.no = ANY (p_nos) AND r.attempt = p_attempt AND r.lease IS NOT DISTINCT FROM p_lease
        RETURNING r.no, r.started_at, r.charged, r.losses, r.keys, r.dedup
    ), kept AS (
        INSERT INTO taskyard.done (no, ended_at, started_at, attempt, charged, losses, state, reason, node, result)
        SELECT g.no, p_now, g.started_at, p_attempt, g.charged + 1, g.losses, 'completed', 'finished',
               (SELECT n.id FROM taskyard.nodes AS n WHERE n.lease = p_lease), p_result
          FROM gone AS g
    )
    SELECT array_agg(g.no), count(g.started_at), array_agg(g.dedup) FILTER (WHERE g.dedup IS NOT NULL),
           array_agg(array_to_string(g.keys, E'\x1f')) FILTER (WHERE g.keys IS NOT NULL),
           array_agg(g.no) FILTER (WHERE g.keys IS NOT NULL), bool_or(cardinality(g.keys) > 1)
      INTO o_accepted, o_started, o_dedup, o_keys, o_holders, v_several
      FROM gone AS g;
    IF v_several THEN
        SELECT array_agg(k.key), array_agg(u.no) INTO o_keys, o_holders
          FROM unnest(o_keys, o_holders) AS u (keys, no)
               CROSS JOIN LATERAL string_to_table(u.keys, E'\x1f') AS k (key);
    END IF;
END
$$;

-- end_attempts: end these attempts where they are the accepted ones; the one place where room is
-- given back. Completed ones come as arrays, in which one entry beside the numbers may stand for all, the
-- others as a JSON list of verdicts with a list of their errors beside it; a lease of 0 is not compared.
-- Where there are only completed ones and all are accepted, attempts and leases are not said again. Answers
-- also the leases of those that had started, for the caller to lighten their load. Needs the lock of the
-- nodes, so that no two end the same attempts, and that of the room if any of them has keys.
CREATE OR REPLACE FUNCTION taskyard.end_attempts(
    p_now bigint, p_nos bigint[], p_attempts integer[], p_leases bigint[], p_results text[],
    p_others json, p_errors text[],
    OUT o_accepted bigint[], OUT o_accepted_attempt integer[], OUT o_accepted_lease bigint[],
    OUT o_cancelled bigint[], OUT o_paused bigint[], OUT o_freed bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    v_attempt integer := p_attempts[1];
    v_lease   bigint := p_leases[1];
    v_node    text;
    v_same    boolean := cardinality(p_results) = 1;
    v_result  text := p_results[1];
    v_given   integer := cardinality(p_nos);
    v_listed  boolean := p_others IS NOT NULL OR cardinality(p_leases) > 1 OR p_leases[1] = 0;
    v_count   integer := 0;
    v_started integer;
    v_freed   bigint[];
    v_queued  taskyard.entrant[];
    v_ended   bigint[];
    v_well    bigint;
    v_gone    boolean;  -- all of them
    v_keys    text[];
    v_holders bigint[];
    v_dedup   text[];
    v_others  bigint[];
    v_tries   integer[];
    v_leases  bigint[];
    v_keys_2  text[];
    v_hold_2  bigint[];
    v_dedup_2 text[];
BEGIN
    IF v_same AND cardinality(p_attempts) = 1 AND cardinality(p_leases) = 1 AND v_lease <> 0 THEN
        SELECT e.* INTO o_accepted, v_started, v_dedup, v_keys, v_holders
          FROM taskyard.end_alike(p_now, p_nos, v_attempt, v_lease, v_result) AS e;
        v_count := coalesce(cardinality(o_accepted), 0);
        IF v_started > 0 THEN
            o_freed := array_fill(v_lease, ARRAY[v_started]);
        END IF;
        IF v_listed OR v_count < v_given THEN
            o_accepted_attempt := array_fill(v_attempt, ARRAY[v_count]);
            o_accepted_lease := array_fill(v_lease, ARRAY[v_count]);
        END IF;
    ELSIF cardinality(p_nos) > 0 THEN
        v_node := (SELECT n.id FROM taskyard.nodes AS n WHERE n.lease = v_lease);
        -- Deleted by their places, and not locked before: their leases are. Somebody may still have updated
        -- one meanwhile (a wish to cancel): that one may be missed, and the call is made again. Lists of what
        -- became of each are made only where somebody reads them. Every part of a statement costs its time
        -- before the first row is read, so what is seldom asked for is left to other statements.
        WITH mine AS MATERIALIZED (
            SELECT r.no, CASE WHEN v_same THEN v_result ELSE v.result END AS result, r.place, r.attempt,
                   r.lease, r.charged, r.losses, r.started_at, r.keys, r.dedup
              FROM (SELECT unnest(p_nos) AS no, unnest(p_attempts) AS attempt, unnest(p_leases) AS lease,
                           unnest(p_results) AS result) AS v
                   CROSS JOIN LATERAL (
                       SELECT a.ctid AS place, * FROM taskyard.running AS a
                        WHERE a.no = v.no AND a.attempt = coalesce(v.attempt, v_attempt)
                          AND coalesce(v.lease, v_lease) IN (0, a.lease) OFFSET 0) AS r
        ), gone AS (
            DELETE FROM taskyard.running WHERE ctid = ANY (ARRAY(SELECT m.place FROM mine AS m)) RETURNING no
        ), kept AS (
            INSERT INTO taskyard.done (no, ended_at, started_at, attempt, charged, losses, state, reason,
                                       node, result)
            SELECT m.no, p_now, m.started_at, m.attempt, m.charged + 1, m.losses, 'completed', 'finished',
                   CASE WHEN m.lease = v_lease THEN v_node
                        ELSE (SELECT n.id FROM taskyard.nodes AS n WHERE n.lease = m.lease) END,
                   m.result
              FROM mine AS m
        )
        SELECT count(*), count(m.started_at), count(*) = (SELECT count(*) FROM gone), array_agg(m.no),
               array_agg(m.attempt) FILTER (WHERE v_listed), array_agg(m.lease) FILTER (WHERE v_listed),
               array_agg(m.lease) FILTER (WHERE v_listed AND m.started_at IS NOT NULL),
               array_agg(m.dedup) FILTER (WHERE m.dedup IS NOT NULL),
               CASE WHEN count(m.keys) > 0 THEN (
                   SELECT array_agg(k.key) FROM mine AS h CROSS JOIN LATERAL unnest(h.keys) AS k (key)) END,
               CASE WHEN count(m.keys) > 0 THEN (
                   SELECT array_agg(h.no) FROM mine AS h CROSS JOIN LATERAL unnest(h.keys) AS k (key)) END
          INTO v_count, v_started, v_gone, o_accepted, o_accepted_attempt, o_accepted_lease, o_freed,
               v_dedup, v_keys, v_holders
          FROM mine AS m;
        IF NOT v_gone THEN
            RAISE EXCEPTION 'a running task was changed at the moment of its end'
                  USING ERRCODE = 'serialization_failure';
        END IF;
        IF NOT v_listed AND v_started > 0 THEN
            o_freed := array_fill(v_lease, ARRAY[v_started]);
        END IF;
        IF NOT v_listed AND v_count < v_given THEN  -- some were stale
            o_accepted_attempt := ARRAY(
                SELECT (SELECT d.attempt FROM taskyard.done AS d WHERE d.no = u.no)
                  FROM unnest(o_accepted) WITH ORDINALITY AS u (no, at) ORDER BY u.at);
            o_accepted_lease := array_fill(v_lease, ARRAY[v_count]);
        END IF;
    END IF;

    IF p_others IS NOT NULL THEN
        WITH given AS MATERIALIZED (
            SELECT v.no, v.id, v.attempt, v.state, v.reason, v.charge, v.losses, v.delay, v.keeps_place,
                   v.result, v.at, p_errors[v.at] AS error, r.lease, r.charged AS charged,
                   r.losses AS lost, r.started_at, r.keys, r.dedup, r.rank,
                   (SELECT n.id FROM taskyard.nodes AS n WHERE n.lease = r.lease) AS node,
                   CASE WHEN v.state NOT IN ('completed', 'failed', 'cancelled') THEN r.asked END AS heeds
              FROM (SELECT * FROM ROWS FROM (json_to_recordset(p_others) AS (
                               no bigint, id text, attempt integer, lease bigint, state text, reason text,
                               charge integer, losses integer, delay double precision,
                               keeps_place boolean, result text))
                             WITH ORDINALITY AS u (no, id, attempt, lease, state, reason, charge, losses,
                                                   delay, keeps_place, result, at)
                     ORDER BY u.no) AS v
                   CROSS JOIN LATERAL (
                       SELECT * FROM taskyard.running AS a
                        WHERE a.no = v.no AND a.attempt = v.attempt
                          AND (coalesce(v.lease, 0) = 0 OR a.lease = v.lease) FOR UPDATE) AS r
        ), final AS MATERIALIZED (
            -- A task that was asked to stop does not come back by itself, however its body ended.
            SELECT g.no, g.id, g.at, g.attempt, g.lease, g.charged + coalesce(g.charge, 0) AS charged,
                   g.lost + coalesce(g.losses, 0) AS losses, g.started_at, g.keys, g.dedup, g.node,
                   g.result, g.error, g.heeds, g.rank,
                   CASE g.heeds WHEN 'cancel' THEN 'cancelled' WHEN 'pause' THEN 'paused'
                                ELSE g.state END AS state,
                   CASE WHEN g.heeds IS NULL THEN g.reason ELSE 'operator' END AS reason,
                   CASE WHEN g.heeds = 'cancel' THEN NULL ELSE g.delay END AS delay,
                   coalesce(g.keeps_place, false) AS keeps_place
              FROM given AS g ORDER BY g.at
        ), placed AS MATERIALIZED (
            SELECT f.*, t.lane, t.route, t.priority, t.deadline, t.run_at AS old_run_at,
                   t.seq AS old_seq, p_now + round(f.delay * 1000000)::bigint AS new_run_at,
                   f.state IN ('completed', 'failed', 'cancelled') AS ended,
                   CASE WHEN f.state NOT IN ('completed', 'failed', 'cancelled') AND NOT f.keeps_place
                        THEN nextval('taskyard.seq') END AS new_seq
              FROM (SELECT * FROM final ORDER BY final.at OFFSET 0) AS f
                   CROSS JOIN LATERAL (
                       SELECT * FROM taskyard.tasks AS d WHERE d.no = f.no OFFSET 0) AS t
        ), gone AS (
            DELETE FROM taskyard.running WHERE no = ANY (ARRAY(SELECT p.no FROM placed AS p))
        ), logged AS (
            INSERT INTO taskyard.failures (no, attempt, reason, at, started_at, node, error)
            SELECT p.no, p.attempt, p.reason, p_now, p.started_at, p.node, p.error
              FROM placed AS p WHERE p.error IS NOT NULL
                ON CONFLICT DO NOTHING
        ), ended AS (
            INSERT INTO taskyard.done (no, ended_at, started_at, attempt, charged, losses, state, reason,
                                       node, result)
            SELECT p.no, p_now, p.started_at, p.attempt, p.charged, p.losses, p.state, p.reason, p.node,
                   p.result
              FROM placed AS p WHERE p.ended
        ), moved AS (
            UPDATE taskyard.tasks AS t
               SET seq = coalesce(p.new_seq, t.seq), run_at = coalesce(p.new_run_at, t.run_at)
              FROM placed AS p
             WHERE t.no = p.no AND t.no = ANY (ARRAY(
                       SELECT m.no FROM placed AS m
                        WHERE m.new_seq IS NOT NULL OR m.new_run_at IS NOT NULL))
        ), rests AS (
            INSERT INTO taskyard.paused (no, attempt, charged, losses, reason, node)
            SELECT p.no, p.attempt, p.charged, p.losses, p.reason, p.node
              FROM placed AS p WHERE p.state = 'paused'
        ), waits AS (
            INSERT INTO taskyard.pending (no, run_at, deadline, lane, attempt, charged, losses, reason, node)
            SELECT p.no, coalesce(p.new_run_at, p.old_run_at), p.deadline, p.lane, p.attempt, p.charged,
                   p.losses, p.reason, p.node
              FROM placed AS p
             WHERE p.state = 'pending' AND NOT coalesce(p.delay <= 0, false)
        ), noted AS (
            -- What the system did by itself is written down; the happy path is not.
            INSERT INTO taskyard.audit (at, actor, action, subject, detail)
            SELECT p_now, 'system', p.reason, 'task:' || p.id, p.state
              FROM placed AS p WHERE p.reason IN ('timeout', 'lost', 'poison', 'rescued')
             ORDER BY p.at
        )
        SELECT array_agg(p.no), array_agg(p.attempt), array_agg(p.lease),
               array_agg(p.no) FILTER (WHERE p.heeds = 'cancel'),
               array_agg(p.no) FILTER (WHERE p.heeds = 'pause'),
               array_agg(p.lease) FILTER (WHERE p.started_at IS NOT NULL),
               array_agg(ROW(p.no, p.attempt, p.charged, p.losses,
                             CASE p.state WHEN 'queued' THEN p.reason ELSE 'due' END, p.node,
                             CASE WHEN p.keeps_place THEN p.rank END)::taskyard.entrant ORDER BY p.at)
                   FILTER (WHERE p.state = 'queued' OR p.state = 'pending' AND p.delay <= 0),
               array_agg(p.no) FILTER (WHERE p.ended),
               count(*) FILTER (WHERE p.state = 'completed'),
               array_agg(p.dedup) FILTER (WHERE p.dedup IS NOT NULL AND p.ended),
               (SELECT array_agg(k.key) FROM placed AS h CROSS JOIN LATERAL unnest(h.keys) AS k (key)
                 WHERE h.keys IS NOT NULL),
               (SELECT array_agg(h.no) FROM placed AS h CROSS JOIN LATERAL unnest(h.keys) AS k (key)
                 WHERE h.keys IS NOT NULL)
          INTO v_others, v_tries, v_leases, o_cancelled, o_paused, v_freed, v_queued, v_ended, v_well, v_dedup_2,
               v_keys_2, v_hold_2
          FROM placed AS p;
        v_count := v_count + v_well;
        v_ended := o_accepted || v_ended;
        o_freed := o_freed || v_freed;
        o_accepted := o_accepted || v_others;
        o_accepted_attempt := o_accepted_attempt || v_tries;
        o_accepted_lease := o_accepted_lease || v_leases;
        v_dedup := v_dedup || v_dedup_2;
        v_keys := v_keys || v_keys_2;
        v_holders := v_holders || v_hold_2;
    END IF;

    IF p_others IS NULL THEN
        v_ended := o_accepted;
    END IF;
    IF v_queued IS NOT NULL OR v_keys IS NOT NULL THEN
        PERFORM taskyard.lock_dependents(v_ended);  -- before the floors
        PERFORM taskyard.queue_up(p_now, v_queued, true);
    END IF;
    IF v_dedup IS NOT NULL THEN
        DELETE FROM taskyard.dedup WHERE key = ANY (v_dedup) AND no = ANY (o_accepted);
    END IF;
    IF v_keys IS NOT NULL THEN
        DELETE FROM taskyard.held WHERE ctid = ANY (ARRAY(
            SELECT (SELECT h.ctid FROM taskyard.held AS h WHERE h.key = k.key AND h.no = k.no)
              FROM unnest(v_keys, v_holders) AS k (key, no)));
        PERFORM taskyard.passed_over(p_now, v_keys);
    END IF;
    PERFORM taskyard.count_completed(v_count), taskyard.tell_dependents(p_now, v_ended);
END
$$;

-- lighten: these leases have this many bodies less, one entry a body. Needs the lock of these nodes.
CREATE OR REPLACE FUNCTION taskyard.lighten(p_freed bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskyard.shift_load(f.lease, -f.bodies)
       FROM (SELECT u.lease, count(*)::integer AS bodies FROM unnest(p_freed) AS u (lease)
              GROUP BY u.lease) AS f;
END
$$;

-- shift_load: a lease has more bodies now, or fewer. Needs the lock of the node.
CREATE OR REPLACE FUNCTION taskyard.shift_load(p_lease bigint, p_bodies integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH last AS (
        DELETE FROM taskyard.loads AS l
         WHERE l.lease = p_lease AND l.entry = (
               SELECT a.entry FROM taskyard.loads AS a WHERE a.lease = p_lease ORDER BY a.entry DESC LIMIT 1)
        RETURNING l.entry, l.number, l.running, l.since
    )
    INSERT INTO taskyard.loads (lease, entry, number, running, since)
    SELECT p_lease, l.entry + 1, l.number, l.running + p_bodies,
           l.since
      FROM last AS l;
END
$$;

-- first_claim: the first claim of a lease, from this one on, that something still runs of: numbers only grow, and
-- one claim of a lease comes after the other, so nothing is ever taken by an earlier one.
CREATE OR REPLACE FUNCTION taskyard.first_claim(p_lease bigint, p_since bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce((
        SELECT r.request FROM taskyard.running AS r WHERE r.lease = p_lease AND r.request >= p_since
         ORDER BY r.request LIMIT 1), p_since);
END
$$;

-- write_load: what shift_load does, by one who has read the last entry, under the same lock.
CREATE OR REPLACE FUNCTION taskyard.write_load(
    p_lease bigint, p_last bigint, p_number bigint, p_running integer, p_since bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM taskyard.loads AS l WHERE l.lease = p_lease AND l.entry = p_last;
    INSERT INTO taskyard.loads (lease, entry, number, running, since)
    VALUES (p_lease, p_last + 1, p_number, p_running, p_since);
END
$$;

-- lock_nodes: one at a time takes or gives back what runs under a lease, or ends it. Before a row of
-- running is locked, never after. The rows of nodes are not locked for it: beats write them, and wait
-- for no turn.
CREATE OR REPLACE FUNCTION taskyard.lock_nodes(p_leases bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('taskyard.node', n.lease))
       FROM (SELECT u.lease FROM unnest(p_leases) AS u (lease) WHERE u.lease <> 0 ORDER BY u.lease) AS n;
END
$$;

-- mark_started: attempts claimed ahead that have started, if they are the accepted ones.
CREATE OR REPLACE FUNCTION taskyard.mark_started(
    p_clock bigint, p_nos bigint[], p_attempts integer[], p_leases bigint[]) RETURNS void
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_lease record;
BEGIN
    PERFORM taskyard.lock_nodes(ARRAY(SELECT r.lease FROM taskyard.running AS r WHERE r.no = ANY (p_nos)));
    FOR v_lease IN
        WITH begun AS (
            UPDATE taskyard.running AS r SET started_at = taskyard.moment(p_clock)
             WHERE r.no = ANY (p_nos) AND r.started_at IS NULL
               AND EXISTS (SELECT 1 FROM unnest(p_nos, p_attempts, p_leases) AS v (no, attempt, lease)
                            WHERE v.no = r.no AND v.attempt = r.attempt
                              AND (v.lease = 0 OR v.lease = r.lease))
            RETURNING r.lease
        )
        SELECT b.lease, count(*)::integer AS bodies FROM begun AS b GROUP BY b.lease
    LOOP
        PERFORM taskyard.shift_load(v_lease.lease, v_lease.bodies);
    END LOOP;
END
$$;

-- report: keep how far an attempt has come, if it is the accepted one.
CREATE OR REPLACE FUNCTION taskyard.report(p_no bigint, p_attempt integer, p_lease bigint, p_progress text)
RETURNS boolean
LANGUAGE plpgsql
{careful_plans} AS $$
BEGIN
    PERFORM 1 FROM taskyard.running
      WHERE no = p_no AND attempt = p_attempt AND (p_lease = 0 OR lease = p_lease) FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO taskyard.progress (no, progress) VALUES (p_no, p_progress)
        ON CONFLICT (no) DO UPDATE SET progress = excluded.progress;
    RETURN true;
END
$$;

-- checkpoint: keep what the next attempt may go on from, if this is the accepted one.
CREATE OR REPLACE FUNCTION taskyard.checkpoint(p_no bigint, p_attempt integer, p_lease bigint, p_data text)
RETURNS boolean
LANGUAGE plpgsql
{careful_plans} AS $$
BEGIN
    PERFORM 1 FROM taskyard.running
      WHERE no = p_no AND attempt = p_attempt AND (p_lease = 0 OR lease = p_lease) FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO taskyard.checkpoints (no, checkpoint) VALUES (p_no, p_data)
        ON CONFLICT (no) DO UPDATE SET checkpoint = excluded.checkpoint;
    RETURN true;
END
$$;
