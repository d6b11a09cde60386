-- promote: do what waits for a moment that has come: queue pending tasks, tell who waits for a token, go
-- on with lanes and a yard that were paused until now. Answers how many things that were, and when the
-- next is due. Places are read in a statement after the one that locked the rows: whoever changes a place
-- locks the row first.
CREATE OR REPLACE FUNCTION taskyard.promote(p_clock bigint, p_limit integer, OUT o_count bigint, OUT o_next bigint)
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now    bigint := taskyard.moment(p_clock);
    v_place  tid[];
    v_queued taskyard.entrant[];
BEGIN
    PERFORM taskyard.serve_new_routes();
    IF EXISTS (SELECT 1 FROM taskyard.second_looks)
       OR EXISTS (SELECT 1 FROM taskyard.lanes AS l WHERE l.paused_until <= v_now) THEN
        PERFORM taskyard.lock_room();  -- before a row of lanes or buckets
    END IF;
    o_count := taskyard.open_buckets(v_now, p_limit) + taskyard.end_pauses(v_now);
    PERFORM taskyard.look_again(v_now);
    SELECT array_agg(d.place) INTO v_place
      FROM (SELECT p.ctid AS place FROM taskyard.pending AS p WHERE p.run_at <= v_now
             ORDER BY p.run_at LIMIT p_limit FOR UPDATE SKIP LOCKED) AS d;
    IF v_place IS NOT NULL THEN
        WITH due AS (
            DELETE FROM taskyard.pending WHERE ctid = ANY (v_place) RETURNING *
        )
        SELECT array_agg(ROW(d.no, d.attempt, d.charged, d.losses, 'due', d.node, NULL)::taskyard.entrant
                         ORDER BY d.run_at, d.no)
          INTO v_queued FROM due AS d;
        PERFORM taskyard.queue_up(v_now, v_queued, true);
        PERFORM taskyard.tell();
        o_count := o_count + cardinality(v_queued);
    END IF;
    -- Who waits for other tasks is due at the end of time.
    o_next := least(
        (SELECT p.run_at FROM taskyard.pending AS p WHERE p.run_at < 9223372036854775807 ORDER BY p.run_at LIMIT 1),
        (SELECT b.opens_at FROM taskyard.buckets AS b WHERE b.opens_at IS NOT NULL ORDER BY b.opens_at LIMIT 1),
        (SELECT l.paused_until FROM taskyard.lanes AS l WHERE l.paused_until IS NOT NULL
          ORDER BY l.paused_until LIMIT 1),
        (SELECT nullif(m.value, '')::bigint FROM taskyard.meta AS m WHERE m.name = 'paused_until'),
        CASE WHEN EXISTS (SELECT 1 FROM taskyard.second_looks) THEN v_now + 100000 END);
END
$$;

-- end_pauses: let the lanes and the yard go on whose pause was to last until now; answers how many.
CREATE OR REPLACE FUNCTION taskyard.end_pauses(p_now bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint := 0;
    v_name  text;
BEGIN
    IF EXISTS (SELECT 1 FROM taskyard.lanes AS l WHERE l.paused_until <= p_now) THEN
        FOR v_name IN
            UPDATE taskyard.lanes SET paused = false, paused_reason = NULL, paused_until = NULL
             WHERE paused_until <= p_now RETURNING name
        LOOP
            PERFORM taskyard.note(p_now, 'system', 'resume', 'lane:' || v_name, 'its time was over');
            v_count := v_count + 1;
        END LOOP;
    END IF;
    IF EXISTS (SELECT 1 FROM taskyard.meta AS m WHERE m.name = 'paused_until'
                  AND nullif(m.value, '')::bigint <= p_now) THEN
        PERFORM taskyard.pause_yard(p_now, false, NULL, 'system', 'its time was over');
        v_count := v_count + 1;
    END IF;
    IF v_count > 0 THEN
        PERFORM taskyard.tell();
    END IF;
    RETURN v_count;
END
$$;

-- expire: fail the waiting tasks whose deadline has passed. All of them expire before those who depend on
-- one of them are told: hence the ready ones last, who tell at once and are waited for by pending ones.
CREATE OR REPLACE FUNCTION taskyard.expire(p_clock bigint, p_limit integer) RETURNS bigint
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now   bigint := taskyard.moment(p_clock);
    v_count bigint;
    v_keys  text[];
    v_more  text[];
    v_nos   bigint[];
    v_also  bigint[];
    v_late  bigint[];  -- pending
    v_ready bigint[];  -- or parked
BEGIN
    IF NOT EXISTS (SELECT 1 FROM taskyard.ready WHERE deadline <= v_now)
       AND NOT EXISTS (SELECT 1 FROM taskyard.parked WHERE deadline <= v_now)
       AND NOT EXISTS (SELECT 1 FROM taskyard.pending WHERE deadline <= v_now) THEN
        RETURN 0;
    END IF;
    PERFORM taskyard.lock_room();
    v_late := ARRAY(
        SELECT p.no FROM taskyard.pending AS p WHERE p.deadline <= v_now ORDER BY p.deadline LIMIT p_limit);
    v_ready := ARRAY(
        (SELECT w.no FROM taskyard.parked AS w WHERE w.deadline <= v_now ORDER BY w.deadline LIMIT p_limit)
        UNION ALL
        (SELECT r.no FROM taskyard.ready AS r WHERE r.deadline <= v_now ORDER BY r.deadline LIMIT p_limit));
    PERFORM taskyard.lock_waits(v_late || taskyard.concerned(v_late || v_ready));
    WITH late AS (
        DELETE FROM taskyard.parked WHERE ctid = ANY (ARRAY(
            SELECT w.ctid FROM taskyard.parked AS w WHERE w.deadline <= v_now
             ORDER BY w.deadline LIMIT p_limit FOR UPDATE SKIP LOCKED))
        RETURNING *
    ), kept AS (
        INSERT INTO taskyard.done (no, ended_at, attempt, charged, losses, state, reason, node)
        SELECT l.no, v_now, l.attempt, l.charged, l.losses, 'failed', 'expired', l.node FROM late AS l
    )
    SELECT array_agg(l.no),
           (SELECT array_agg(k.key) FROM late AS c CROSS JOIN LATERAL unnest(c.keys) AS k (key))
      INTO v_nos, v_keys FROM late AS l;
    v_count := coalesce(cardinality(v_nos), 0);

    WITH late AS (
        DELETE FROM taskyard.pending WHERE ctid = ANY (ARRAY(
            SELECT p.ctid FROM taskyard.pending AS p WHERE p.deadline <= v_now
             ORDER BY p.deadline LIMIT p_limit - v_count FOR UPDATE SKIP LOCKED))
        RETURNING *
    ), kept AS (
        INSERT INTO taskyard.done (no, ended_at, attempt, charged, losses, state, reason, node)
        SELECT l.no, v_now, l.attempt, l.charged, l.losses, 'failed', 'expired', l.node FROM late AS l
    )
    SELECT array_agg(l.no) INTO v_also FROM late AS l;
    v_count := v_count + coalesce(cardinality(v_also), 0);

    SELECT v_count + e.o_count, e.o_keys INTO v_count, v_more
      FROM taskyard.expire_ready(v_now, ARRAY(
               SELECT r.ctid FROM taskyard.ready AS r WHERE r.deadline <= v_now
                ORDER BY r.deadline LIMIT p_limit - v_count)) AS e;
    PERFORM taskyard.after_expiry(v_now, v_nos || v_also);
    PERFORM taskyard.passed_over(v_now, v_keys || v_more);
    PERFORM taskyard.tell();
    RETURN v_count;
END
$$;
