-- promote: queue pending tasks whose time has come; answers how many, and when the next is due.
-- Places are read in a statement after the one that locked the rows: whoever changes a place
-- locks the row first.
CREATE OR REPLACE FUNCTION taskyard.promote(p_clock bigint, p_limit integer, OUT o_count bigint, OUT o_next bigint)
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now        bigint := taskyard.moment(p_clock);
    v_place      tid[];
    v_lanes      integer[];
    v_routes     integer[];
    v_priorities smallint[];
    v_seqs       bigint[];
BEGIN
    PERFORM taskyard.serve_new_routes();
    SELECT array_agg(d.place) INTO v_place
      FROM (SELECT p.ctid AS place FROM taskyard.pending AS p WHERE p.run_at <= v_now
             ORDER BY p.run_at LIMIT p_limit FOR UPDATE SKIP LOCKED) AS d;
    o_count := 0;
    IF v_place IS NOT NULL THEN
        WITH due AS (
            DELETE FROM taskyard.pending WHERE ctid = ANY (v_place) RETURNING *
        ), queued AS (
            INSERT INTO taskyard.ready (seq, no, lane, route, attempt, charged, losses, priority, special,
                                        rota, reason, keys, dedup, deadline, node)
            SELECT t.seq, d.no, t.lane, t.route, d.attempt, d.charged, d.losses, t.priority,
                   t.keys IS NOT NULL, t.rota, 'due', t.keys, t.dedup, d.deadline, d.node
              FROM due AS d
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = d.no OFFSET 0) AS t
            RETURNING lane, route, priority, seq
        )
        SELECT count(*), array_agg(q.lane), array_agg(q.route), array_agg(q.priority), array_agg(q.seq)
          INTO o_count, v_lanes, v_routes, v_priorities, v_seqs
          FROM queued AS q;
        PERFORM taskyard.reopen(v_lanes, v_routes, v_priorities, v_seqs);
        PERFORM taskyard.tell();
    END IF;
    SELECT p.run_at INTO o_next FROM taskyard.pending AS p ORDER BY p.run_at LIMIT 1;
END
$$;

-- expire: fail the waiting tasks whose deadline has passed.
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
BEGIN
    IF NOT EXISTS (SELECT 1 FROM taskyard.ready WHERE deadline <= v_now)
       AND NOT EXISTS (SELECT 1 FROM taskyard.parked WHERE deadline <= v_now)
       AND NOT EXISTS (SELECT 1 FROM taskyard.pending WHERE deadline <= v_now) THEN
        RETURN 0;
    END IF;
    PERFORM taskyard.lock_room();
    SELECT e.o_count, e.o_keys INTO v_count, v_keys
      FROM taskyard.expire_ready(v_now, ARRAY(
               SELECT r.ctid FROM taskyard.ready AS r WHERE r.deadline <= v_now
                ORDER BY r.deadline LIMIT p_limit)) AS e;

    WITH late AS (
        DELETE FROM taskyard.parked WHERE ctid = ANY (ARRAY(
            SELECT w.ctid FROM taskyard.parked AS w WHERE w.deadline <= v_now
             ORDER BY w.deadline LIMIT p_limit - v_count))
        RETURNING *
    ), kept AS (
        INSERT INTO taskyard.done (no, ended_at, attempt, charged, losses, state, reason, node)
        SELECT l.no, v_now, l.attempt, l.charged, l.losses, 'failed', 'expired', l.node FROM late AS l
    )
    SELECT array_agg(l.no),
           (SELECT array_agg(k.key) FROM late AS c CROSS JOIN LATERAL unnest(c.keys) AS k (key))
      INTO v_nos, v_more FROM late AS l;
    v_count := v_count + coalesce(cardinality(v_nos), 0);
    v_keys := v_keys || v_more;

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

    PERFORM taskyard.after_expiry(v_now, v_nos || v_also);
    PERFORM taskyard.passed_over(v_keys);
    PERFORM taskyard.tell();
    RETURN v_count;
END
$$;
