-- register: make a node ready under a new lease. Under the lock, for the reason given at make_names.
CREATE OR REPLACE FUNCTION taskyard.register(
    p_clock bigint, p_id text, p_kinds text[], p_capabilities text[], p_labels text, p_slots integer,
    p_process text, p_lease_us bigint) RETURNS bigint
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now   bigint;
    v_lease bigint;
BEGIN
    PERFORM taskyard.lock_room();
    v_now := taskyard.moment(p_clock);
    -- Not only higher than any before: also one that a server which lost its last writes never gave out.
    v_lease := greatest(nextval('taskyard.leases'), taskyard.wall_clock());
    PERFORM setval('taskyard.leases', v_lease);
    INSERT INTO taskyard.nodes (lease, id, state, kinds, capabilities, labels, slots, process, lease_us,
                                until, registered_at, seen_at)
    VALUES (v_lease, p_id, 'ready', p_kinds, p_capabilities, p_labels, p_slots, p_process, p_lease_us,
            v_now + p_lease_us, v_now, v_now);
    INSERT INTO taskyard.loads (lease, entry, number, running) VALUES (v_lease, 1, 0, 0);
    INSERT INTO taskyard.node_routes (lease, route)
    SELECT v_lease, r.no FROM taskyard.routes AS r
     WHERE r.kind = ANY (p_kinds) AND r.requires <@ p_capabilities;
    PERFORM taskyard.note(v_now, 'system', 'register', 'node:' || p_id, 'lease ' || v_lease);
    PERFORM taskyard.tell();
    RETURN v_lease;
END
$$;

-- news: what runs under a lease and is asked to do something; o_lost if the lease is gone. Seldom more
-- than a few rows, however many run and have run.
CREATE OR REPLACE FUNCTION taskyard.news(
    p_lease bigint, OUT o_lost boolean, OUT o_no bigint[], OUT o_attempt integer[], OUT o_asked text[])
LANGUAGE plpgsql
{careful_plans} AS $$
BEGIN
    o_lost := NOT EXISTS (SELECT 1 FROM taskyard.nodes WHERE lease = p_lease);
    SELECT array_agg(r.no), array_agg(r.attempt), array_agg(r.asked) INTO o_no, o_attempt, o_asked
      FROM taskyard.running AS r WHERE r.lease = p_lease AND r.asked IS NOT NULL;
END
$$;

-- beat: renew a lease: one small write, however many tasks run. A lease that ran out but was not
-- rescued yet comes back to life: nobody took its tasks. It waits for whoever ends the lease, for no other.
CREATE OR REPLACE FUNCTION taskyard.beat(
    p_clock bigint, p_lease bigint, p_usage text,
    OUT o_lost boolean, OUT o_no bigint[], OUT o_attempt integer[], OUT o_asked text[])
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now bigint := taskyard.moment(p_clock);
BEGIN
    UPDATE taskyard.nodes SET until = v_now + lease_us, seen_at = v_now, usage = coalesce(p_usage, usage)
     WHERE lease = p_lease;
    SELECT n.* INTO o_lost, o_no, o_attempt, o_asked FROM taskyard.news(p_lease) AS n;
END
$$;

-- runs_of: what runs under a lease, as LostRun in domain/outcome.py has it.
CREATE OR REPLACE FUNCTION taskyard.runs_of(p_lease bigint) RETURNS json
LANGUAGE plpgsql STABLE
{careful_plans} AS $$
BEGIN
    RETURN (
        SELECT coalesce(json_agg(json_build_object(
                   'no', r.no, 'id', t.id, 'attempt', r.attempt, 'charged', r.charged,
                   'max_charged', t.max_charged, 'losses', r.losses,
                   'started', r.started_at IS NOT NULL, 'asked', r.asked) ORDER BY r.no), '[]')
          FROM taskyard.running AS r
               CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = r.no OFFSET 0) AS t
         WHERE r.lease = p_lease);
END
$$;

-- lost_nodes: the nodes whose lease has ended or that are proven dead, what runs under them, and a mark by
-- which forget_node knows this look again. It locks nothing: whoever looks may never come back.
CREATE OR REPLACE FUNCTION taskyard.lost_nodes(p_clock bigint, p_dead bigint[], p_ended boolean) RETURNS json
LANGUAGE plpgsql STABLE
{careful_plans} AS $$
DECLARE
    v_now bigint := taskyard.moment(p_clock);
BEGIN
    RETURN (
        SELECT coalesce(json_agg(json_build_array(n.lease, n.id, md5(n.runs::text), n.runs) ORDER BY n.lease), '[]')
          FROM (SELECT a.lease, a.id, taskyard.runs_of(a.lease) AS runs FROM taskyard.nodes AS a
                 WHERE p_ended AND a.until <= v_now OR a.lease = ANY (p_dead)) AS n);
END
$$;

-- forget_node: end these attempts of a node, then the node and its duties. False, and nothing is done, if
-- that was decided of something else than what runs there now, or if the node has gone or, unless its death
-- is proven, lives again.
CREATE OR REPLACE FUNCTION taskyard.forget_node(
    p_clock bigint, p_lease bigint, p_proven boolean, p_mark text, p_verdicts json, p_errors text[],
    p_noted bigint) RETURNS boolean
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now bigint;
    v_id  text;
BEGIN
    PERFORM taskyard.lock_room();
    PERFORM taskyard.lock_nodes(ARRAY[p_lease]);
    v_now := taskyard.moment(p_clock);
    SELECT n.id INTO v_id FROM taskyard.nodes AS n
     WHERE n.lease = p_lease AND (p_proven OR n.until <= v_now) FOR UPDATE;
    IF NOT FOUND OR md5(taskyard.runs_of(p_lease)::text) <> p_mark THEN
        RETURN false;
    END IF;
    IF p_verdicts IS NOT NULL THEN
        PERFORM taskyard.end_attempts(v_now, '{}', '{}', '{}', '{}', p_verdicts, p_errors);
    END IF;
    IF p_noted > 0 THEN
        PERFORM taskyard.note(v_now, 'system', 'rescue', 'node:' || v_id, p_noted || ' tasks');
    END IF;
    DELETE FROM taskyard.node_routes WHERE lease = p_lease;
    DELETE FROM taskyard.loads WHERE lease = p_lease;
    DELETE FROM taskyard.nodes WHERE lease = p_lease;
    DELETE FROM taskyard.duties WHERE holder = p_lease;
    PERFORM taskyard.tell();
    RETURN true;
END
$$;

-- take_duty: become or stay the one who does it.
CREATE OR REPLACE FUNCTION taskyard.take_duty(
    p_clock bigint, p_name text, p_holder bigint, p_span bigint) RETURNS boolean
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now bigint := taskyard.moment(p_clock);
BEGIN
    INSERT INTO taskyard.duties AS d (name, holder, until) VALUES (p_name, p_holder, v_now + p_span)
        ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
     WHERE d.holder = excluded.holder OR d.until <= v_now;
    RETURN FOUND;
END
$$;

-- drain: claim nothing more under this lease; what runs goes on.
CREATE OR REPLACE FUNCTION taskyard.drain(p_lease bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM taskyard.lock_nodes(ARRAY[p_lease]);
    UPDATE taskyard.nodes SET state = 'draining' WHERE lease = p_lease;
END
$$;
