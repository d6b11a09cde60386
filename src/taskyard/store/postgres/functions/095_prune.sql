-- prune_look: the oldest ended tasks in a state behind (p_at, p_no), and whether each has been kept long
-- enough: for p_common unless its lane or its kind says otherwise. What goes is decided here alone. With
-- p_lock the rows that go are locked; those that somebody gives a new life at this moment are left out.
CREATE OR REPLACE FUNCTION taskyard.prune_look(
    p_now bigint, p_state text, p_youngest bigint, p_common bigint, p_lanes text[], p_lane_ages bigint[],
    p_kinds text[], p_kind_ages bigint[], p_at bigint, p_no bigint, p_limit integer, p_lock boolean,
    OUT o_old bigint[], OUT o_seen bigint, OUT o_at bigint, OUT o_no bigint)
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_state text := CASE p_state WHEN 'completed' THEN 'd.state = ''completed'''
                                 ELSE format('d.state <> ''completed'' AND d.state = %L', p_state) END;
BEGIN
    -- The state is written out, for its index is of this state alone.
    EXECUTE 'SELECT array_agg(s.no) FILTER (WHERE s.old), count(*), max(s.ended_at),'
            '       (array_agg(s.no ORDER BY s.ended_at DESC, s.no DESC))[1]'
            '  FROM (SELECT d.no, d.ended_at, d.ended_at <= $1 - coalesce('
            '                   $6[array_position($5, k.kind)], $4[array_position($3, l.name)], $2) AS old'
            '          FROM (SELECT d.no, d.ended_at FROM taskyard.done AS d WHERE ' || v_state ||
            '                   AND d.ended_at <= $1 - $7 AND (d.ended_at, d.no) > ($8, $9)'
            '                 ORDER BY d.ended_at, d.no LIMIT $10) AS d'
            '               CROSS JOIN LATERAL ('
            '                   SELECT t.lane, t.route FROM taskyard.tasks AS t WHERE t.no = d.no OFFSET 0) AS t'
            '               JOIN taskyard.routes AS k ON k.no = t.route'
            '               JOIN taskyard.lanes AS l ON l.no = t.lane) AS s'
       INTO o_old, o_seen, o_at, o_no
      USING p_now, p_common, p_lanes, p_lane_ages, p_kinds, p_kind_ages, p_youngest, p_at, p_no, p_limit;
    o_old := taskyard.not_needed(o_old);
    IF p_lock AND o_old IS NOT NULL THEN
        -- One that had a new life since it was looked at has ended later; one that somebody makes a new
        -- task depend on is locked.
        o_old := ARRAY(SELECT d.no FROM taskyard.done AS d
                              CROSS JOIN LATERAL (
                                  SELECT 1 FROM taskyard.tasks AS t WHERE t.no = d.no FOR UPDATE SKIP LOCKED) AS t
                        WHERE d.no = ANY (o_old) AND d.ended_at <= o_at
                        ORDER BY d.no FOR UPDATE OF d SKIP LOCKED);
        o_old := taskyard.not_needed(o_old);
    END IF;
END
$$;

-- not_needed: those of these ended tasks that no task depends on which has not ended.
CREATE OR REPLACE FUNCTION taskyard.not_needed(p_nos bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_nos IS NULL OR NOT EXISTS (SELECT 1 FROM taskyard.dependencies) THEN
        RETURN p_nos;
    END IF;
    RETURN ARRAY(
        SELECT u.no FROM unnest(p_nos) AS u (no)
         WHERE NOT EXISTS (SELECT 1 FROM taskyard.dependencies AS d
                            WHERE d.on_no = u.no
                              AND NOT EXISTS (SELECT 1 FROM taskyard.done AS e WHERE e.no = d.no)));
END
$$;

-- prune: remove ended tasks in a state that have been kept long enough. Answers how many, the place to go
-- on behind (NULL: there is no more), and the line of the audit trail that tells of this run. It takes no
-- lock that a claim or a finish could wait for.
CREATE OR REPLACE FUNCTION taskyard.prune(
    p_clock bigint, p_state text, p_youngest bigint, p_common bigint, p_lanes text[], p_lane_ages bigint[],
    p_kinds text[], p_kind_ages bigint[], p_at bigint, p_no bigint, p_limit integer, p_dry_run boolean,
    p_actor text, p_line bigint, p_removed bigint,
    OUT o_count integer, OUT o_at bigint, OUT o_no bigint, OUT o_line bigint)
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now  bigint := taskyard.moment(p_clock);
    v_old  bigint[];
    v_seen bigint;
    c_lines CONSTANT integer := 20000;  -- PRUNE_LINES in port.py
    v_lines integer;
BEGIN
    SELECT l.o_old, l.o_seen, l.o_at, l.o_no INTO v_old, v_seen, o_at, o_no
      FROM taskyard.prune_look(v_now, p_state, p_youngest, p_common, p_lanes, p_lane_ages, p_kinds,
                               p_kind_ages, p_at, p_no, p_limit, NOT p_dry_run) AS l;
    IF v_seen < p_limit THEN
        o_at := NULL;
        o_no := NULL;
    END IF;
    o_count := coalesce(cardinality(v_old), 0);
    o_line := p_line;
    IF o_count > 0 AND NOT p_dry_run THEN
        DELETE FROM taskyard.logs WHERE ctid = ANY (ARRAY(
            SELECT g.ctid FROM taskyard.logs AS g WHERE g.no = ANY (v_old) LIMIT c_lines));
        GET DIAGNOSTICS v_lines = ROW_COUNT;
        IF v_lines = c_lines THEN
            -- The tasks go when their lines have gone: the next step begins where this one did.
            o_count := 0;
            o_at := p_at;
            o_no := p_no;
            RETURN;
        END IF;
        DELETE FROM taskyard.task_keys AS g
         USING taskyard.tasks AS t
         WHERE t.no = ANY (v_old) AND t.keys IS NOT NULL AND g.key = ANY (t.keys) AND g.no = t.no;
        DELETE FROM taskyard.failures WHERE no = ANY (v_old);
        DELETE FROM taskyard.progress WHERE no = ANY (v_old);
        DELETE FROM taskyard.checkpoints WHERE no = ANY (v_old);
        DELETE FROM taskyard.dependencies WHERE no = ANY (v_old);
        DELETE FROM taskyard.waits WHERE no = ANY (v_old);
        DELETE FROM taskyard.done WHERE no = ANY (v_old);
        DELETE FROM taskyard.tasks WHERE no = ANY (v_old);
        DELETE FROM taskyard.audit WHERE no = p_line;
        INSERT INTO taskyard.audit (at, actor, action, subject, detail)
        VALUES (v_now, p_actor, 'prune', 'yard', (p_removed + o_count)::text)
        RETURNING no INTO o_line;
        IF p_state = 'completed' THEN
            PERFORM taskyard.count_completed(-o_count);
        END IF;
    END IF;
END
$$;

-- prune_audit: remove those of the first lines of the audit trail that are older; answers how many.
CREATE OR REPLACE FUNCTION taskyard.prune_audit(p_clock bigint, p_age bigint, p_limit integer) RETURNS bigint
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM taskyard.audit WHERE no = ANY (ARRAY(
        SELECT f.no FROM (SELECT a.no, a.at FROM taskyard.audit AS a ORDER BY a.no LIMIT p_limit) AS f
         WHERE f.at <= taskyard.moment(p_clock) - p_age));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;

-- prune_figures: remove the statistics of hours that are older.
CREATE OR REPLACE FUNCTION taskyard.prune_figures(p_clock bigint, p_age bigint) RETURNS void
LANGUAGE plpgsql
{careful_plans} AS $$
BEGIN
    DELETE FROM taskyard.figures WHERE hour < taskyard.moment(p_clock) - p_age;
END
$$;
