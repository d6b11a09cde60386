-- number_since: the first number whose task was created at this moment or later, by halving.
CREATE OR REPLACE FUNCTION taskyard.number_since(p_moment bigint) RETURNS bigint
LANGUAGE plpgsql STABLE
{careful_plans} AS $$
DECLARE
    v_low    bigint := 0;
    v_high   bigint := (SELECT coalesce(max(t.no), 0) + 1 FROM taskyard.tasks AS t);
    v_middle bigint;
    v_no     bigint;
    v_at     bigint;
BEGIN
    WHILE v_low < v_high LOOP
        v_middle := v_low + (v_high - v_low) / 2;
        SELECT t.no, t.created_at INTO v_no, v_at
          FROM taskyard.tasks AS t WHERE t.no >= v_middle ORDER BY t.no LIMIT 1;
        IF v_no IS NULL OR v_at >= p_moment THEN
            v_high := v_middle;
        ELSE
            v_low := v_no + 1;
        END IF;
    END LOOP;
    RETURN v_low;
END
$$;

-- find_numbers: of the tasks that match, newest first. It goes through the one list that knows most of what is
-- asked (a key, a state, or all numbers with lane and route beside them) and looks at each entry for the rest,
-- p_looks of them at most; o_go_on is where it stopped, if that was before the page was full.
-- Subqueries in place of joins: a join could be turned round. And lists are read in their order, from where the
-- last search ended: of a table that nobody has analyzed yet, all that is older would be read and sorted instead.
CREATE OR REPLACE FUNCTION taskyard.find_numbers(
    p_state text, p_kind text, p_lane text, p_key text, p_since bigint, p_until bigint, p_slack bigint,
    p_after bigint, p_limit integer, p_looks integer, OUT o_nos bigint[], OUT o_go_on bigint)
LANGUAGE plpgsql STABLE
{careful_plans}
SET enable_bitmapscan = off
SET enable_sort = off AS $$
DECLARE
    v_below  bigint := coalesce(p_after, 9223372036854775807);
    v_least  bigint := 0;
    v_looks  bigint := p_looks / 5;  -- to look something up costs some times as much as to read on
    v_lane   integer;
    v_routes integer[];
    v_list   text;
    v_tests  text[] := '{}';
    v_task   text[] := '{}';  -- what is to be looked up in tasks
    v_known  boolean := false;  -- the state follows from the list
    v_beside boolean := false;  -- lane and route stand in it
    v_size   bigint;
    v_found  bigint[];
    v_last   bigint;
    v_count  bigint;
BEGIN
    IF p_lane IS NOT NULL THEN
        SELECT l.no INTO v_lane FROM taskyard.lanes AS l WHERE l.name = p_lane;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF p_kind IS NOT NULL THEN
        v_routes := ARRAY(SELECT r.no FROM taskyard.routes AS r WHERE r.kind = p_kind);
        IF v_routes = '{}' THEN
            RETURN;
        END IF;
    END IF;
    IF p_until IS NOT NULL THEN
        v_below := least(v_below, taskyard.number_since(p_until + p_slack));
        v_task := v_task || 't.created_at < $8'::text;
    END IF;
    IF p_since IS NOT NULL THEN
        v_least := taskyard.number_since(p_since - p_slack);
        v_task := v_task || 't.created_at >= $7'::text;
    END IF;

    IF p_key IS NOT NULL THEN
        v_list := 'SELECT a.no FROM taskyard.task_keys AS a WHERE a.key = $4 AND';
    ELSIF p_state IN ('failed', 'cancelled') THEN
        v_list := format('SELECT a.no FROM taskyard.done AS a WHERE a.state <> ''completed'' AND a.state = %L AND', p_state);
        v_known := true;
    ELSIF p_state IN ('running', 'pending', 'paused') THEN
        v_list := format('SELECT a.no FROM taskyard.%I AS a WHERE', p_state);
        v_known := true;
    ELSIF p_state = 'completed' AND v_lane IS NULL AND v_routes IS NULL THEN
        v_list := 'SELECT a.no, a.state FROM taskyard.done AS a WHERE';
        v_tests := ARRAY['v.state = ''completed'''];
        v_known := true;
    ELSE
        v_list := 'SELECT a.no, a.lane, a.route FROM taskyard.tasks AS a WHERE';
        v_beside := true;
        v_looks := CASE WHEN p_state = 'queued' THEN greatest(20 * p_limit, 1000)  -- mostly some are; else see below
                        WHEN v_task = '{}' THEN p_looks ELSE v_looks END;
    END IF;
    v_list := v_list || ' a.no < $1 AND a.no >= $2 ORDER BY a.no DESC LIMIT $3';
    IF v_lane IS NOT NULL AND v_beside THEN
        v_tests := v_tests || 'v.lane = $5'::text;
    ELSIF v_lane IS NOT NULL THEN
        v_task := v_task || 't.lane = $5'::text;
    END IF;
    IF v_routes IS NOT NULL AND v_beside THEN
        v_tests := v_tests || 'v.route = ANY ($6)'::text;
    ELSIF v_routes IS NOT NULL THEN
        v_task := v_task || 't.route = ANY ($6)'::text;
    END IF;
    IF v_task <> '{}' THEN
        v_tests := v_tests || ('(SELECT true FROM taskyard.tasks AS t WHERE t.no = v.no AND '
                               || array_to_string(v_task, ' AND ') || ')');
    END IF;
    IF p_state IS NOT NULL AND NOT v_known THEN
        v_tests := v_tests || CASE p_state
            WHEN 'queued' THEN
                '(SELECT true FROM taskyard.done AS d WHERE d.no = v.no) IS NULL'
                ' AND (SELECT true FROM taskyard.running AS d WHERE d.no = v.no) IS NULL'
                ' AND (SELECT true FROM taskyard.pending AS d WHERE d.no = v.no) IS NULL'
                ' AND (SELECT true FROM taskyard.paused AS d WHERE d.no = v.no) IS NULL'
            WHEN 'running' THEN '(SELECT true FROM taskyard.running AS d WHERE d.no = v.no)'
            WHEN 'pending' THEN '(SELECT true FROM taskyard.pending AS d WHERE d.no = v.no)'
            WHEN 'paused' THEN '(SELECT true FROM taskyard.paused AS d WHERE d.no = v.no)'
            ELSE format('(SELECT true FROM taskyard.done AS d WHERE d.no = v.no AND d.state = %L)', p_state)
        END;
    END IF;

    o_nos := '{}';
    v_size := p_limit * CASE WHEN v_tests = '{}' THEN 1 ELSE 4 END;
    WHILE v_looks > 0 LOOP
        v_size := least(v_size, v_looks);
        EXECUTE 'SELECT array_agg(v.no) FILTER (WHERE ' || array_to_string('true'::text || v_tests, ' AND ')
                || '), min(v.no), count(*) FROM (' || v_list || ') AS v'
           INTO v_found, v_last, v_count
          USING v_below, v_least, v_size, p_key, v_lane, v_routes, p_since, p_until;
        o_nos := (o_nos || v_found)[1:p_limit];
        IF cardinality(o_nos) = p_limit OR v_count < v_size THEN
            RETURN;
        END IF;
        v_below := v_last;
        v_looks := v_looks - v_count;
        v_size := least(2 * v_size, 10000);
    END LOOP;
    IF p_state = 'queued' AND p_key IS NULL THEN
        o_nos := o_nos || taskyard.queued_numbers(
            v_lane, v_routes, p_since, p_until, v_last, v_least, p_limit - cardinality(o_nos));
    ELSE
        o_go_on := v_last;
    END IF;
END
$$;

-- queued_numbers: of all that are queued, the newest below p_below; for when they are not among the newest of
-- all. They stand in the order of claims: all are read.
CREATE OR REPLACE FUNCTION taskyard.queued_numbers(
    p_lane integer, p_routes integer[], p_since bigint, p_until bigint, p_below bigint, p_least bigint,
    p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET jit = off AS $$
DECLARE
    v_where text := ' WHERE a.no < $1 AND a.no >= $2';
    v_nos   bigint[];
BEGIN
    IF p_lane IS NOT NULL THEN
        v_where := v_where || ' AND a.lane = $3';
    END IF;
    IF p_routes IS NOT NULL THEN
        v_where := v_where || ' AND a.route = ANY ($4)';
    END IF;
    IF p_since IS NOT NULL OR p_until IS NOT NULL THEN
        v_where := v_where || ' AND (SELECT coalesce(t.created_at >= $5, true) AND coalesce(t.created_at < $6, true)'
                              ' FROM taskyard.tasks AS t WHERE t.no = a.no)';
    END IF;
    EXECUTE 'SELECT array_agg(f.no) FROM (SELECT s.no FROM ('
            'SELECT a.no FROM taskyard.ready AS a' || v_where
            || ' UNION ALL SELECT a.no FROM taskyard.parked AS a' || v_where
            || ') AS s ORDER BY s.no DESC LIMIT $7) AS f'
       INTO v_nos USING p_below, p_least, p_lane, p_routes, p_since, p_until, p_limit;
    RETURN v_nos;
END
$$;

-- find: tasks by filter, as far as one search finds them.
CREATE OR REPLACE FUNCTION taskyard.find(
    p_state text, p_kind text, p_lane text, p_key text, p_since bigint, p_until bigint, p_slack bigint,
    p_after bigint, p_limit integer, p_looks integer) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT json_build_object('tasks', taskyard.tasks_json(n.o_nos), 'go_on', n.o_go_on)
              FROM taskyard.find_numbers(
                       p_state, p_kind, p_lane, p_key, p_since, p_until, p_slack, p_after, p_limit,
                       p_looks) AS n);
END
$$;

-- page: the same tasks as a list shows them, with payloads up to p_short bytes.
CREATE OR REPLACE FUNCTION taskyard.page(
    p_state text, p_kind text, p_lane text, p_key text, p_since bigint, p_until bigint, p_slack bigint,
    p_after bigint, p_limit integer, p_looks integer, p_short integer) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT json_build_object('tasks', taskyard.lines_json(n.o_nos, p_short), 'go_on', n.o_go_on)
              FROM taskyard.find_numbers(
                       p_state, p_kind, p_lane, p_key, p_since, p_until, p_slack, p_after, p_limit,
                       p_looks) AS n);
END
$$;
