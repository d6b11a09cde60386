-- where_is: the state of a task, and its number; nothing if there is none.
CREATE OR REPLACE FUNCTION taskyard.where_is(
    p_id text, OUT o_no bigint, OUT o_state text, OUT o_priority integer, OUT o_keys text[], OUT o_dedup text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT t.no,
           coalesce(
               (SELECT d.state FROM taskyard.done AS d WHERE d.no = t.no),
               (SELECT 'running' FROM taskyard.running AS r WHERE r.no = t.no),
               (SELECT 'pending' FROM taskyard.pending AS p WHERE p.no = t.no),
               'queued'),
           t.priority, t.keys, t.dedup
      INTO o_no, o_state, o_priority, o_keys, o_dedup
      FROM taskyard.tasks AS t WHERE t.id = p_id;
END
$$;

-- unqueue: take a waiting task out of where it waits; nothing if it has left meanwhile.
CREATE OR REPLACE FUNCTION taskyard.unqueue(p_no bigint)
RETURNS TABLE (attempt integer, charged integer, losses integer, reason text, node text, due bigint)
LANGUAGE plpgsql AS $$
DECLARE
    t taskyard.tasks%ROWTYPE;
BEGIN
    SELECT * INTO t FROM taskyard.tasks AS a WHERE a.no = p_no;
    RETURN QUERY DELETE FROM taskyard.ready AS r
     WHERE r.lane = t.lane AND r.route = t.route AND r.rota = t.rota AND r.priority = t.priority
       AND r.seq = t.seq
    RETURNING r.attempt, r.charged, r.losses, r.reason, r.node, NULL::bigint;
    IF FOUND THEN RETURN; END IF;
    RETURN QUERY DELETE FROM taskyard.parked AS r
     WHERE r.key = ANY (t.keys) AND r.lane = t.lane AND r.route = t.route AND r.rota = t.rota
       AND r.priority = t.priority AND r.seq = t.seq
    RETURNING r.attempt, r.charged, r.losses, r.reason, r.node, NULL::bigint;
    IF FOUND THEN RETURN; END IF;
    RETURN QUERY DELETE FROM taskyard.pending AS r WHERE r.no = p_no
    RETURNING r.attempt, r.charged, r.losses, r.reason, r.node, r.run_at;
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
        VALUES (v_task.o_no, v_now, v_was.attempt, v_was.charged, v_was.losses, 'cancelled', 'operator',
                v_was.node);
        DELETE FROM taskyard.dedup WHERE key = v_task.o_dedup AND no = v_task.o_no;
        PERFORM taskyard.passed_over(v_task.o_keys);
        PERFORM taskyard.note(v_now, p_actor, 'cancel', 'task:' || p_id, 'cancelled');
        PERFORM taskyard.tell();
        RETURN v_task.o_state;
    END LOOP;
    RAISE EXCEPTION 'task % keeps moving', p_id USING ERRCODE = 'serialization_failure';
END
$$;

-- retry: a new life: a full budget, a new place; the attempt goes on counting. Answers the state it
-- was in, and who keeps its dedup key if that forbids it.
CREATE OR REPLACE FUNCTION taskyard.retry(
    p_clock bigint, p_id text, p_actor text, OUT o_state text, OUT o_kept_by text)
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now  bigint;
    v_seq  bigint;
    v_no   bigint;
    v_life integer;
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
        INSERT INTO taskyard.dedup (key, no, until) VALUES (t.dedup, t.no, t.dedup_until)
            ON CONFLICT (key) DO NOTHING;
        IF NOT FOUND THEN
            SELECT k.id INTO o_kept_by
              FROM taskyard.dedup AS d JOIN taskyard.tasks AS k ON k.no = d.no WHERE d.key = t.dedup;
            RETURN;
        END IF;
    END IF;
    v_seq := nextval('taskyard.seq');
    DELETE FROM taskyard.done AS d WHERE d.no = v_no RETURNING d.attempt INTO v_life;
    UPDATE taskyard.tasks SET seq = v_seq, run_at = v_now, deadline = NULL WHERE no = v_no;
    INSERT INTO taskyard.ready (seq, no, lane, route, attempt, priority, special, rota, reason, keys, dedup)
    VALUES (v_seq, v_no, t.lane, t.route, v_life, t.priority, t.keys IS NOT NULL, t.rota, 'operator', t.keys,
            t.dedup);
    PERFORM taskyard.note(v_now, p_actor, 'retry', 'task:' || p_id, 'was ' || o_state);
    PERFORM taskyard.tell();
END
$$;

-- prioritize: change the place of a waiting task; parked ones are looked at again, for their place
-- among the waiters has changed. Answers the state it was in.
CREATE OR REPLACE FUNCTION taskyard.prioritize(
    p_clock bigint, p_id text, p_priority smallint, p_actor text) RETURNS text
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_task record;
    v_was  record;
    t      taskyard.tasks%ROWTYPE;
BEGIN
    PERFORM taskyard.lock_room();
    FOR v_look IN 1..100 LOOP
        SELECT * INTO v_task FROM taskyard.where_is(p_id);
        IF v_task.o_no IS NULL OR v_task.o_state NOT IN ('pending', 'queued') THEN
            RETURN v_task.o_state;
        END IF;
        SELECT * INTO v_was FROM taskyard.unqueue(v_task.o_no);
        EXIT WHEN FOUND;
    END LOOP;
    IF v_was.attempt IS NULL THEN  -- after a loop FOUND says only that it ran
        RAISE EXCEPTION 'task % keeps moving', p_id USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE taskyard.tasks SET priority = p_priority WHERE no = v_task.o_no RETURNING * INTO t;
    PERFORM taskyard.make_queues(ARRAY[t.route], ARRAY[t.lane], ARRAY[t.priority]);
    IF v_was.due IS NOT NULL THEN
        INSERT INTO taskyard.pending (no, run_at, deadline, lane, attempt, charged, losses, reason, node)
        VALUES (t.no, v_was.due, t.deadline, t.lane, v_was.attempt, v_was.charged, v_was.losses, v_was.reason,
                v_was.node);
    ELSE
        INSERT INTO taskyard.ready (seq, no, lane, route, attempt, charged, losses, priority, special, rota,
                                    reason, keys, dedup, deadline, node)
        VALUES (t.seq, t.no, t.lane, t.route, v_was.attempt, v_was.charged, v_was.losses, t.priority,
                t.keys IS NOT NULL OR v_was.reason = 'rescued', t.rota, v_was.reason, t.keys, t.dedup,
                t.deadline, v_was.node);
        PERFORM taskyard.reopen(ARRAY[t.lane], ARRAY[t.route], ARRAY[t.priority], ARRAY[t.seq]);
    END IF;
    PERFORM taskyard.passed_over(t.keys);
    PERFORM taskyard.note(taskyard.moment(p_clock), p_actor, 'prioritize', 'task:' || p_id,
                          v_task.o_priority || ' to ' || p_priority);
    PERFORM taskyard.tell();
    RETURN v_task.o_state;
END
$$;

-- set_lane: change a lane, making it if it is new.
CREATE OR REPLACE FUNCTION taskyard.set_lane(
    p_clock bigint, p_name text, p_sets_capacity boolean, p_capacity integer, p_sets_paused boolean,
    p_paused boolean, p_reason text, p_actor text) RETURNS void
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now bigint := taskyard.moment(p_clock);
BEGIN
    INSERT INTO taskyard.lanes (name) VALUES (p_name) ON CONFLICT (name) DO NOTHING;
    IF p_sets_capacity THEN
        UPDATE taskyard.lanes SET capacity = p_capacity WHERE name = p_name;
        PERFORM taskyard.note(v_now, p_actor, 'set_capacity', 'lane:' || p_name,
                              coalesce(p_capacity::text, 'None'));
    END IF;
    IF p_sets_paused THEN
        UPDATE taskyard.lanes SET paused = p_paused, paused_reason = p_reason WHERE name = p_name;
        PERFORM taskyard.note(v_now, p_actor, CASE WHEN p_paused THEN 'pause' ELSE 'resume' END,
                              'lane:' || p_name, coalesce(p_reason, ''));
    END IF;
    PERFORM taskyard.tell();
END
$$;

CREATE OR REPLACE FUNCTION taskyard.pause_yard(p_clock bigint, p_paused boolean, p_actor text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE taskyard.meta SET value = p_paused::text WHERE name = 'paused';
    PERFORM taskyard.note(taskyard.moment(p_clock), p_actor,
                          CASE WHEN p_paused THEN 'pause' ELSE 'resume' END, 'yard', '');
    PERFORM taskyard.tell();
END
$$;
