-- where_is: the state of a task, and its number; nothing if there is none.
CREATE OR REPLACE FUNCTION taskyard.where_is(
    p_id text, OUT o_no bigint, OUT o_state text, OUT o_priority integer, OUT o_keys text[])
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT t.no,
           coalesce(
               (SELECT d.state FROM taskyard.done AS d WHERE d.no = t.no),
               (SELECT 'running' FROM taskyard.running AS r WHERE r.no = t.no),
               (SELECT 'pending' FROM taskyard.pending AS p WHERE p.no = t.no),
               (SELECT 'paused' FROM taskyard.paused AS p WHERE p.no = t.no),
               'queued'),
           t.priority, t.keys
      INTO o_no, o_state, o_priority, o_keys
      FROM taskyard.tasks AS t WHERE t.id = p_id;
END
$$;

-- unqueue: take a waiting task out of where it waits; nothing if it has left meanwhile, or somebody is
-- just changing it: whoever holds the room waits for no caller's transaction.
CREATE OR REPLACE FUNCTION taskyard.unqueue(p_no bigint)
RETURNS TABLE (attempt integer, charged integer, losses integer, reason text, node text, due bigint, rank bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_place tid;
    t       taskyard.tasks%ROWTYPE;
BEGIN
    PERFORM taskyard.lock_waits(ARRAY[p_no]);
    SELECT * INTO t FROM taskyard.tasks AS a WHERE a.no = p_no;
    SELECT r.ctid INTO v_place FROM taskyard.ready AS r
     WHERE r.lane = t.lane AND r.route = t.route AND r.priority = ANY (ARRAY[0, t.priority]::smallint[])
       AND r.seq = t.seq FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN QUERY DELETE FROM taskyard.ready AS r WHERE r.ctid = v_place
        RETURNING r.attempt, r.charged, r.losses, r.reason, r.node, NULL::bigint, r.rank;
        RETURN;
    END IF;
    SELECT r.ctid INTO v_place FROM taskyard.parked AS r
     WHERE r.key = ANY (t.keys) AND r.lane = t.lane AND r.route = t.route
       AND r.priority = ANY (ARRAY[0, t.priority]::smallint[]) AND r.seq = t.seq FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN QUERY DELETE FROM taskyard.parked AS r WHERE r.ctid = v_place
        RETURNING r.attempt, r.charged, r.losses, r.reason, r.node, NULL::bigint, r.rank;
        RETURN;
    END IF;
    SELECT r.ctid INTO v_place FROM taskyard.pending AS r WHERE r.no = p_no FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN QUERY DELETE FROM taskyard.pending AS r WHERE r.ctid = v_place
        RETURNING r.attempt, r.charged, r.losses, r.reason, r.node, r.run_at, NULL::bigint;
        RETURN;
    END IF;
    SELECT r.ctid INTO v_place FROM taskyard.paused AS r WHERE r.no = p_no FOR UPDATE SKIP LOCKED;
    RETURN QUERY DELETE FROM taskyard.paused AS r WHERE r.ctid = v_place
    RETURNING r.attempt, r.charged, r.losses, r.reason, r.node, NULL::bigint, NULL::bigint;
END
$$;

CREATE OR REPLACE FUNCTION taskyard.by_whom(p_actor text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE p_actor WHEN 'system' THEN 'system' ELSE 'operator' END;
END
$$;

-- cancel: a waiting task, or ask a running one to stop; answers the state it was in.
CREATE OR REPLACE FUNCTION taskyard.cancel(p_clock bigint, p_id text, p_actor text) RETURNS text
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now  bigint;
    v_task record;
    v_was  record;
BEGIN
    PERFORM taskyard.lock_room();
    v_now := taskyard.moment(p_clock);
    FOR v_look IN 1..100 LOOP
        SELECT * INTO v_task FROM taskyard.where_is(p_id);
        IF v_task.o_no IS NULL OR v_task.o_state IN ('completed', 'failed', 'cancelled') THEN
            RETURN v_task.o_state;
        END IF;
        IF v_task.o_state = 'running' THEN
            UPDATE taskyard.running SET asked = 'cancel' WHERE no = v_task.o_no;
            CONTINUE WHEN NOT FOUND;
            PERFORM taskyard.note(v_now, p_actor, 'cancel', 'task:' || p_id, 'asked');
            PERFORM taskyard.tell();
            RETURN v_task.o_state;
        END IF;
        SELECT * INTO v_was FROM taskyard.unqueue(v_task.o_no);
        CONTINUE WHEN NOT FOUND;  -- it left while we waited for its row
        INSERT INTO taskyard.done (no, ended_at, attempt, charged, losses, state, reason, node)
        VALUES (v_task.o_no, v_now, v_was.attempt, v_was.charged, v_was.losses, 'cancelled',
                taskyard.by_whom(p_actor), v_was.node);
        PERFORM taskyard.free_dedup(ARRAY[v_task.o_no]);
        PERFORM taskyard.lock_dependents(ARRAY[v_task.o_no]);
        PERFORM taskyard.passed_over(v_now, v_task.o_keys);
        PERFORM taskyard.note(v_now, p_actor, 'cancel', 'task:' || p_id, 'cancelled');
        PERFORM taskyard.tell_dependents(v_now, ARRAY[v_task.o_no]);
        PERFORM taskyard.tell();
        RETURN v_task.o_state;
    END LOOP;
    RAISE EXCEPTION 'task % keeps moving', p_id USING ERRCODE = 'serialization_failure';
END
$$;

-- pause: a waiting task, or ask a running one to; answers the state it was in.
CREATE OR REPLACE FUNCTION taskyard.pause(p_clock bigint, p_id text, p_actor text) RETURNS text
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now  bigint;
    v_task record;
    v_was  record;
BEGIN
    PERFORM taskyard.lock_room();
    v_now := taskyard.moment(p_clock);
    FOR v_look IN 1..100 LOOP
        SELECT * INTO v_task FROM taskyard.where_is(p_id);
        IF v_task.o_no IS NULL OR v_task.o_state NOT IN ('pending', 'queued', 'running') THEN
            RETURN v_task.o_state;
        END IF;
        IF v_task.o_state = 'running' THEN
            -- Who is to stop for good is not asked for less.
            UPDATE taskyard.running SET asked = coalesce(asked, 'pause') WHERE no = v_task.o_no;
            CONTINUE WHEN NOT FOUND;
            PERFORM taskyard.note(v_now, p_actor, 'pause', 'task:' || p_id, 'asked');
            PERFORM taskyard.tell();
            RETURN v_task.o_state;
        END IF;
        SELECT * INTO v_was FROM taskyard.unqueue(v_task.o_no);
        CONTINUE WHEN NOT FOUND;
        INSERT INTO taskyard.paused (no, attempt, charged, losses, reason, node)
        VALUES (v_task.o_no, v_was.attempt, v_was.charged, v_was.losses, taskyard.by_whom(p_actor), v_was.node);
        PERFORM taskyard.passed_over(v_now, v_task.o_keys);
        PERFORM taskyard.note(v_now, p_actor, 'pause', 'task:' || p_id, 'paused');
        PERFORM taskyard.tell();
        RETURN v_task.o_state;
    END LOOP;
    RAISE EXCEPTION 'task % keeps moving', p_id USING ERRCODE = 'serialization_failure';
END
$$;

-- resume: let a paused task wait again where it stood, or take back the wish that a running one pause.
-- Answers the state it was in, and whether it was paused or asked to.
CREATE OR REPLACE FUNCTION taskyard.resume(
    p_clock bigint, p_id text, p_actor text, OUT o_state text, OUT o_done boolean)
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now  bigint;
    v_task record;
    v_was  record;
    v_due  bigint;
    t      taskyard.tasks%ROWTYPE;
BEGIN
    PERFORM taskyard.lock_room();
    v_now := taskyard.moment(p_clock);
    o_done := false;
    FOR v_look IN 1..100 LOOP
        SELECT * INTO v_task FROM taskyard.where_is(p_id);
        o_state := v_task.o_state;
        IF o_state = 'running' THEN
            UPDATE taskyard.running SET asked = NULL WHERE no = v_task.o_no AND asked = 'pause';
            o_done := FOUND;
            IF o_done THEN
                PERFORM taskyard.note(v_now, p_actor, 'resume', 'task:' || p_id, 'asked');
                PERFORM taskyard.tell();
            END IF;
            RETURN;
        END IF;
        IF o_state IS DISTINCT FROM 'paused' THEN
            RETURN;
        END IF;
        SELECT * INTO v_was FROM taskyard.unqueue(v_task.o_no);
        CONTINUE WHEN NOT FOUND;
        SELECT * INTO t FROM taskyard.tasks AS a WHERE a.no = v_task.o_no;
        v_due := CASE WHEN EXISTS (SELECT 1 FROM taskyard.waits AS w WHERE w.no = t.no AND w.waits_for > 0)
                      THEN 9223372036854775807 ELSE t.run_at END;
        IF v_due > v_now THEN
            INSERT INTO taskyard.pending (no, run_at, deadline, lane, attempt, charged, losses, reason, node)
            VALUES (t.no, v_due, t.deadline, t.lane, v_was.attempt, v_was.charged, v_was.losses,
                    taskyard.by_whom(p_actor), v_was.node);
        ELSE
            PERFORM taskyard.queue_up(v_now, ARRAY[ROW(
                t.no, v_was.attempt, v_was.charged, v_was.losses, taskyard.by_whom(p_actor), v_was.node,
                NULL)::taskyard.entrant], true);
        END IF;
        PERFORM taskyard.note(v_now, p_actor, 'resume', 'task:' || p_id, 'paused');
        PERFORM taskyard.tell();
        o_done := true;
        RETURN;
    END LOOP;
    RAISE EXCEPTION 'task % keeps moving', p_id USING ERRCODE = 'serialization_failure';
END
$$;

-- retry: a new life: a full budget, a new place; the attempt goes on counting. Answers the state it
-- was in, and who keeps its dedup key if that forbids it. It does not wait for a caller who is about to
-- take that key.
CREATE OR REPLACE FUNCTION taskyard.retry(
    p_clock bigint, p_id text, p_actor text, OUT o_state text, OUT o_kept_by text)
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now  bigint;
    v_seq  bigint;
    v_no   bigint;
    v_life integer;
    v_wait text;
    v_kept boolean;
    t      taskyard.tasks%ROWTYPE;
BEGIN
    PERFORM taskyard.lock_room();
    v_now := taskyard.moment(p_clock);
    SELECT w.o_no, w.o_state INTO v_no, o_state FROM taskyard.where_is(p_id) AS w;
    IF v_no IS NULL OR o_state NOT IN ('failed', 'cancelled') THEN
        RETURN;
    END IF;
    PERFORM 1 FROM taskyard.done AS d WHERE d.no = v_no FOR UPDATE;
    IF NOT FOUND THEN
        o_state := NULL;  -- it was pruned meanwhile
        RETURN;
    END IF;
    SELECT * INTO t FROM taskyard.tasks AS a WHERE a.no = v_no;
    IF t.dedup IS NOT NULL THEN
        v_wait := taskyard.wait_at_most('200ms');
        INSERT INTO taskyard.dedup (key, no, until) VALUES (t.dedup, t.no, t.dedup_until)
            ON CONFLICT (key) DO NOTHING;
        v_kept := NOT FOUND;
        PERFORM taskyard.wait_at_most(v_wait);
        IF v_kept THEN
            SELECT k.id INTO o_kept_by
              FROM taskyard.dedup AS d JOIN taskyard.tasks AS k ON k.no = d.no WHERE d.key = t.dedup;
            RETURN;
        END IF;
    END IF;
    v_seq := nextval('taskyard.seq');
    DELETE FROM taskyard.done AS d WHERE d.no = v_no RETURNING d.attempt INTO v_life;
    UPDATE taskyard.tasks SET seq = v_seq, run_at = v_now, deadline = NULL WHERE no = v_no;
    -- It depends on nobody any more.
    UPDATE taskyard.waits SET waits_for = 0 WHERE no = v_no;
    UPDATE taskyard.dependencies SET met = true WHERE no = v_no AND NOT met;
    PERFORM taskyard.queue_up(v_now, ARRAY[ROW(v_no, v_life, 0, 0, 'operator', NULL, NULL)::taskyard.entrant], true);
    PERFORM taskyard.note(v_now, p_actor, 'retry', 'task:' || p_id, 'was ' || o_state);
    PERFORM taskyard.tell();
END
$$;

-- prioritize: change the place of a waiting task; parked ones are looked at again, for their place
-- among the waiters has changed. Answers the state it was in, and whether its lane knows no priority.
CREATE OR REPLACE FUNCTION taskyard.prioritize(
    p_clock bigint, p_id text, p_priority smallint, p_actor text, OUT o_state text, OUT o_fifo text)
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now  bigint;
    v_task record;
    v_was  record;
    v_wait text;
    v_lane taskyard.lanes%ROWTYPE;
    t      taskyard.tasks%ROWTYPE;
BEGIN
    PERFORM taskyard.lock_room();
    v_now := taskyard.moment(p_clock);
    FOR v_look IN 1..100 LOOP
        SELECT * INTO v_task FROM taskyard.where_is(p_id);
        o_state := v_task.o_state;
        IF v_task.o_no IS NULL OR o_state NOT IN ('pending', 'queued', 'paused') THEN
            RETURN;
        END IF;
        SELECT * INTO t FROM taskyard.tasks AS a WHERE a.no = v_task.o_no;
        SELECT * INTO v_lane FROM taskyard.lanes AS l WHERE l.no = t.lane;
        IF v_lane.lane_order = 'fifo' THEN
            o_fifo := v_lane.name;
            RETURN;
        END IF;
        EXIT WHEN o_state = 'paused';
        SELECT * INTO v_was FROM taskyard.unqueue(v_task.o_no);
        IF FOUND THEN
            -- It may have become due since it was looked at.
            o_state := CASE WHEN v_was.due IS NULL THEN 'queued' ELSE 'pending' END;
            EXIT;
        END IF;
        IF v_look = 100 THEN
            RAISE EXCEPTION 'task % keeps moving', p_id USING ERRCODE = 'serialization_failure';
        END IF;
    END LOOP;
    v_wait := taskyard.wait_at_most('200ms');  -- a caller may be changing one that is paused
    UPDATE taskyard.tasks SET priority = p_priority WHERE no = t.no;
    PERFORM taskyard.wait_at_most(v_wait);
    IF o_state = 'paused' THEN
        NULL;  -- it gets its place when it is resumed
    ELSIF o_state = 'pending' THEN
        INSERT INTO taskyard.pending (no, run_at, deadline, lane, attempt, charged, losses, reason, node)
        VALUES (t.no, v_was.due, t.deadline, t.lane, v_was.attempt, v_was.charged, v_was.losses, v_was.reason,
                v_was.node);
    ELSE
        -- With ageing it has waited as long as before; in a fair lane its group has the place.
        PERFORM taskyard.queue_up(v_now, ARRAY[ROW(
            t.no, v_was.attempt, v_was.charged, v_was.losses, v_was.reason, v_was.node,
            v_was.rank + CASE WHEN v_lane.lane_order = 'fair' THEN 0
                              ELSE (p_priority - t.priority) * v_lane.ageing END)::taskyard.entrant], true);
        PERFORM taskyard.passed_over(v_now, t.keys);
    END IF;
    PERFORM taskyard.note(v_now, p_actor, 'prioritize', 'task:' || p_id, t.priority || ' to ' || p_priority);
    PERFORM taskyard.tell();
END
$$;
