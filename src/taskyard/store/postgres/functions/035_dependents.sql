-- Tasks that depend on others. Whoever changes one that waits for others locks its row in waits first, and
-- rows of waits are locked in the order of their numbers; a dependent always has a higher number than what
-- it depends on. So two that end at the same moment count one after the other, and one of them is the last.

CREATE OR REPLACE FUNCTION taskyard.lock_waits(p_nos bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM taskyard.waits AS w WHERE w.no = ANY (p_nos) ORDER BY w.no FOR UPDATE;
END
$$;

-- lock_dependents: of these tasks, which have ended or are about to fail, as tell_dependents does. For
-- whoever wakes or queues others before it tells: that may take the lock of floors, and rows of waits are
-- locked before it.
CREATE OR REPLACE FUNCTION taskyard.lock_dependents(p_nos bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_nos IS NOT NULL AND EXISTS (SELECT 1 FROM taskyard.dependencies) THEN
        PERFORM taskyard.lock_waits(taskyard.concerned(p_nos));
    END IF;
END
$$;

-- tell_dependents: these tasks have ended: count that, queue whoever waits for nothing more, and give up
-- whoever was to be cancelled, and their dependents in turn. p_new: the dependents are being saved.
CREATE OR REPLACE FUNCTION taskyard.tell_dependents(
    p_now bigint, p_nos bigint[], p_new boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_ended bigint[] := p_nos;
    v_free  bigint[];
    v_given bigint[];   -- up, and why
    v_why   text[];
BEGIN
    IF p_nos IS NULL OR NOT EXISTS (SELECT 1 FROM taskyard.dependencies) THEN
        RETURN;
    END IF;
    PERFORM taskyard.lock_waits(taskyard.concerned(p_nos));
    WHILE cardinality(v_ended) > 0 LOOP
        WITH hit AS MATERIALIZED (
            SELECT d.no, d.place, d.on_id || ' ' || e.state AS why,
                   e.state <> 'completed' AND w.on_failure = 'cancel' AS badly
              FROM unnest(v_ended) AS u (no)
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.done AS a WHERE a.no = u.no OFFSET 0) AS e
                   CROSS JOIN LATERAL (
                       SELECT * FROM taskyard.dependencies AS a WHERE a.on_no = u.no AND NOT a.met OFFSET 0) AS d
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = d.no OFFSET 0) AS w
             WHERE EXISTS (SELECT 1 FROM taskyard.pending AS p WHERE p.no = d.no)
                OR EXISTS (SELECT 1 FROM taskyard.paused AS p WHERE p.no = d.no)
        ), met AS (
            UPDATE taskyard.dependencies AS d SET met = true
              FROM hit AS h WHERE d.no = h.no AND d.place = h.place
        ), counted AS (
            UPDATE taskyard.waits AS w SET waits_for = w.waits_for - h.n
              FROM (SELECT hit.no, count(*)::integer AS n FROM hit GROUP BY hit.no) AS h
             WHERE w.no = h.no
            RETURNING w.no, w.waits_for
        )
        SELECT (SELECT array_agg(c.no ORDER BY c.no) FROM counted AS c WHERE c.waits_for = 0
                   AND NOT EXISTS (SELECT 1 FROM hit AS h WHERE h.no = c.no AND h.badly)),
               array_agg(b.no ORDER BY b.no), array_agg(b.why ORDER BY b.no)
          INTO v_free, v_given, v_why
          FROM (SELECT DISTINCT ON (h.no) h.no, h.why FROM hit AS h WHERE h.badly ORDER BY h.no, h.place) AS b;
        PERFORM taskyard.set_free(p_now, v_free, p_new);
        PERFORM taskyard.give_up(p_now, v_given, CASE WHEN NOT p_new THEN v_why END);
        v_ended := v_given;
    END LOOP;
END
$$;

-- concerned: the dependents of these, and theirs in turn as far as they are given up. Those of these that
-- have not ended are about to fail.
CREATE OR REPLACE FUNCTION taskyard.concerned(p_nos bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE below (no, badly) AS (
            SELECT d.no, e.state IS DISTINCT FROM 'completed' AND w.on_failure = 'cancel'
              FROM unnest(p_nos) AS u (no)
                   CROSS JOIN LATERAL (
                       SELECT * FROM taskyard.dependencies AS a WHERE a.on_no = u.no AND NOT a.met OFFSET 0) AS d
                   LEFT JOIN LATERAL (SELECT * FROM taskyard.done AS a WHERE a.no = u.no OFFSET 0) AS e ON true
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = d.no OFFSET 0) AS w
            UNION
            SELECT d.no, w.on_failure = 'cancel'
              FROM below AS b
                   CROSS JOIN LATERAL (
                       SELECT * FROM taskyard.dependencies AS a WHERE a.on_no = b.no AND NOT a.met OFFSET 0) AS d
                   CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = d.no OFFSET 0) AS w
             WHERE b.badly
        )
        SELECT DISTINCT below.no FROM below);
END
$$;

-- set_free: these wait for no other task any more. Those that are paused stay so.
CREATE OR REPLACE FUNCTION taskyard.set_free(p_now bigint, p_nos bigint[], p_new boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_queued taskyard.entrant[];
BEGIN
    IF p_nos IS NULL THEN
        RETURN;
    END IF;
    WITH gone AS MATERIALIZED (
        DELETE FROM taskyard.pending WHERE no = ANY (p_nos) RETURNING *
    ), freed AS MATERIALIZED (
        -- One that was to start at once is not early, however long we waited for it to be saved.
        SELECT g.*, t.run_at AS due, t.run_at > greatest(p_now, t.created_at) AS early
          FROM gone AS g
               CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = g.no OFFSET 0) AS t
    ), later AS (
        INSERT INTO taskyard.pending (no, run_at, deadline, lane, attempt, charged, losses, reason, node)
        SELECT f.no, f.due, f.deadline, f.lane, f.attempt, f.charged, f.losses, f.reason, f.node
          FROM freed AS f WHERE f.early
    )
    SELECT array_agg(ROW(f.no, f.attempt, f.charged, f.losses,
                         CASE WHEN p_new THEN f.reason ELSE 'dependency' END, f.node, NULL)::taskyard.entrant
                     ORDER BY f.no)
      INTO v_queued
      FROM freed AS f WHERE NOT f.early;
    PERFORM taskyard.queue_up(p_now, v_queued, NOT p_new);
    PERFORM taskyard.tell();
END
$$;

-- give_up: cancel these, for one that they depend on ended badly; p_why (NULL: not written down) says
-- which.
CREATE OR REPLACE FUNCTION taskyard.give_up(p_now bigint, p_nos bigint[], p_why text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_nos IS NULL THEN
        RETURN;
    END IF;
    WITH waited AS (
        DELETE FROM taskyard.pending WHERE no = ANY (p_nos) RETURNING no, attempt, charged, losses, node
    ), rested AS (
        DELETE FROM taskyard.paused WHERE no = ANY (p_nos) RETURNING no, attempt, charged, losses, node
    )
    INSERT INTO taskyard.done (no, ended_at, attempt, charged, losses, state, reason, node)
    SELECT g.no, p_now, g.attempt, g.charged, g.losses, 'cancelled', 'dependency', g.node
      FROM (SELECT * FROM waited UNION ALL SELECT * FROM rested) AS g;
    PERFORM taskyard.free_dedup(p_nos);
    IF p_why IS NOT NULL THEN
        INSERT INTO taskyard.audit (at, actor, action, subject, detail)
        SELECT p_now, 'system', 'dependency', 'task:' || t.id, 'cancelled: ' || v.why
          FROM unnest(p_nos, p_why) WITH ORDINALITY AS v (no, why, at)
               CROSS JOIN LATERAL (SELECT a.id FROM taskyard.tasks AS a WHERE a.no = v.no OFFSET 0) AS t
         ORDER BY v.at;
    END IF;
    PERFORM taskyard.tell();
END
$$;

-- free_dedup: the dedup keys these tasks keep are free.
CREATE OR REPLACE FUNCTION taskyard.free_dedup(p_nos bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM taskyard.dedup AS d
     WHERE d.key = ANY (ARRAY(SELECT t.dedup FROM taskyard.tasks AS t
                               WHERE t.no = ANY (p_nos) AND t.dedup IS NOT NULL))
       AND d.no = ANY (p_nos);
END
$$;

-- hold_still: let none of these tasks start or end before this transaction has ended: who comes later
-- finds what it saved. Those that have ended already are not held.
CREATE OR REPLACE FUNCTION taskyard.hold_still(p_nos bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_no bigint;
    t    taskyard.tasks%ROWTYPE;
BEGIN
    FOR v_no IN
        SELECT u.no FROM unnest(p_nos) AS u (no)
         WHERE NOT EXISTS (SELECT 1 FROM taskyard.done AS d WHERE d.no = u.no)
         ORDER BY u.no
    LOOP
        FOR v_look IN 1..1000 LOOP
            PERFORM 1 FROM taskyard.running AS r WHERE r.no = v_no FOR KEY SHARE;
            EXIT WHEN FOUND;
            PERFORM 1 FROM taskyard.pending AS r WHERE r.no = v_no FOR KEY SHARE;
            EXIT WHEN FOUND;
            SELECT * INTO t FROM taskyard.tasks AS a WHERE a.no = v_no;
            PERFORM 1 FROM taskyard.ready AS r
              WHERE r.lane = t.lane AND r.route = t.route AND r.priority = ANY (ARRAY[0, t.priority]::smallint[])
                AND r.seq = t.seq FOR KEY SHARE;
            EXIT WHEN FOUND;
            PERFORM 1 FROM taskyard.parked AS r
              WHERE r.key = ANY (t.keys) AND r.lane = t.lane AND r.route = t.route
                AND r.priority = ANY (ARRAY[0, t.priority]::smallint[]) AND r.seq = t.seq FOR KEY SHARE;
            EXIT WHEN FOUND;
            PERFORM 1 FROM taskyard.paused AS r WHERE r.no = v_no FOR KEY SHARE;
            EXIT WHEN FOUND;
            PERFORM 1 FROM taskyard.done AS r WHERE r.no = v_no;
            EXIT WHEN FOUND;
            IF v_look = 1000 THEN
                RAISE EXCEPTION 'task % keeps moving', v_no USING ERRCODE = 'serialization_failure';
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- settle: what these new dependents depend on may have ended already.
CREATE OR REPLACE FUNCTION taskyard.settle(p_now bigint, p_nos bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_on bigint[] := ARRAY(SELECT DISTINCT d.on_no FROM taskyard.dependencies AS d
                            WHERE d.no = ANY (p_nos) AND NOT d.met);
BEGIN
    PERFORM taskyard.hold_still(v_on);
    PERFORM taskyard.tell_dependents(p_now, ARRAY(
        SELECT d.no FROM taskyard.done AS d WHERE d.no = ANY (v_on)), true);
END
$$;

-- settle_at_commit: all that this transaction has left to settle, at its end and in one go, so that rows
-- are held for a moment only and in one order.
CREATE OR REPLACE FUNCTION taskyard.settle_at_commit() RETURNS trigger
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_nos   bigint[];
    v_clock bigint;
BEGIN
    WITH mine AS (
        DELETE FROM taskyard.unsettled AS u WHERE u.xid = pg_current_xact_id() RETURNING u.no, u.clock
    )
    SELECT array_agg(m.no), max(m.clock) INTO v_nos, v_clock FROM mine AS m;
    IF v_nos IS NOT NULL THEN
        PERFORM taskyard.settle(taskyard.moment(v_clock), v_nos);
    END IF;
    RETURN NULL;
END
$$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_trigger AS t
                    WHERE t.tgname = 'settle' AND t.tgrelid = 'taskyard.unsettled'::regclass) THEN
        CREATE CONSTRAINT TRIGGER settle AFTER INSERT ON taskyard.unsettled
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION taskyard.settle_at_commit();
    END IF;
END
$$;
