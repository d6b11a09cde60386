-- key_limit: the exact rule, else the longest prefix, else 1.
CREATE OR REPLACE FUNCTION taskyard.key_limit(p_key text) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_limit integer;
BEGIN
    SELECT key_limit INTO v_limit FROM taskyard.key_rules
     WHERE pattern = p_key AND prefix IS NULL
        OR prefix IS NOT NULL AND starts_with(p_key, prefix)
     ORDER BY prefix IS NULL DESC, length(prefix) DESC LIMIT 1;
    RETURN coalesce(v_limit, 1);
END
$$;

-- key_room: how many more may hold a key; counted over what runs.
CREATE OR REPLACE FUNCTION taskyard.key_room(p_key text) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN taskyard.key_limit(p_key)
         - (SELECT count(*) FROM taskyard.held WHERE key = p_key)::integer;
END
$$;

-- waited_keys: the keys someone is parked on, one index seek each.
CREATE OR REPLACE FUNCTION taskyard.waited_keys() RETURNS TABLE (key text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    WITH RECURSIVE waited (key) AS (
        SELECT (SELECT w.key FROM taskyard.parked AS w ORDER BY w.key LIMIT 1)
        UNION ALL
        SELECT (SELECT w.key FROM taskyard.parked AS w WHERE w.key > waited.key ORDER BY w.key LIMIT 1)
          FROM waited WHERE waited.key IS NOT NULL
    )
    SELECT waited.key FROM waited WHERE waited.key IS NOT NULL;
END
$$;

-- wake: let the first p_freed waiters of each lane and route be looked at again, for every one of
-- these keys that has room. The rule that keeps parking honest:
--
--     while a key has room for f more, in every lane and route at least f ready tasks that carry
--     the key come before every task parked on it.
--
-- A waiter in a full lane must not stand before one in a lane with room, hence one for each. p_set: that
-- many for each of them. Waking one too many is harmless: it parks again when it is looked at. Needs the
-- lock.
CREATE OR REPLACE FUNCTION taskyard.wake(p_keys text[], p_freed bigint[], p_set integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lanes      integer[];
    v_routes     integer[];
    v_priorities smallint[];
    v_seqs       bigint[];
BEGIN
    WITH RECURSIVE open AS MATERIALIZED (
        SELECT f.key, least(f.freed, taskyard.key_room(f.key)) * p_set AS turns
          FROM unnest(p_keys, p_freed) AS f (key, freed)
         WHERE f.freed > 0 AND EXISTS (SELECT 1 FROM taskyard.parked AS w WHERE w.key = f.key)
    ), head AS (
        SELECT o.key, o.turns, w.lane, w.route
          FROM open AS o
               CROSS JOIN LATERAL (
                   SELECT p.lane, p.route FROM taskyard.parked AS p WHERE p.key = o.key
                    ORDER BY p.lane, p.route, p.rota, p.priority, p.seq LIMIT 1) AS w
         WHERE o.turns > 0
        UNION ALL
        SELECT h.key, h.turns, w.lane, w.route
          FROM head AS h
               CROSS JOIN LATERAL (
                   SELECT p.lane, p.route FROM taskyard.parked AS p
                    WHERE p.key = h.key AND (p.lane, p.route) > (h.lane, h.route)
                    ORDER BY p.lane, p.route, p.rota, p.priority, p.seq LIMIT 1) AS w
    ), woken AS (
        DELETE FROM taskyard.parked WHERE ctid = ANY (ARRAY(
            SELECT w.place
              FROM head AS h
                   CROSS JOIN LATERAL (
                       SELECT p.ctid AS place FROM taskyard.parked AS p
                        WHERE p.key = h.key AND p.lane = h.lane AND p.route = h.route
                        ORDER BY p.rota, p.priority, p.seq LIMIT h.turns) AS w))
        RETURNING *
    ), queued AS (
        INSERT INTO taskyard.ready (seq, no, lane, route, attempt, charged, losses, priority, special,
                                    rota, reason, keys, dedup, deadline, node)
        SELECT seq, no, lane, route, attempt, charged, losses, priority, special,
               rota, reason, keys, dedup, deadline, node
          FROM woken
    )
    SELECT array_agg(w.lane), array_agg(w.route), array_agg(w.priority), array_agg(w.seq)
      INTO v_lanes, v_routes, v_priorities, v_seqs
      FROM woken AS w;
    PERFORM taskyard.reopen(v_lanes, v_routes, v_priorities, v_seqs);
END
$$;

-- passed_over: carriers of these keys (one entry a carrier) have gone without taking room, or have
-- given theirs back: others may take their turn, a set of them for each. Needs the lock.
CREATE OR REPLACE FUNCTION taskyard.passed_over(p_keys text[], p_set integer DEFAULT 1) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_keys  text[];
    v_freed bigint[];
BEGIN
    IF p_keys IS NULL OR cardinality(p_keys) = 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(c.key), array_agg(c.n) INTO v_keys, v_freed
      FROM (SELECT k.key, count(*) AS n FROM unnest(p_keys) AS k (key) GROUP BY k.key) AS c;
    PERFORM taskyard.wake(v_keys, v_freed, p_set);
END
$$;

-- set_key_rule: set or (NULL) remove a rule, and wake as many as it lets in.
CREATE OR REPLACE FUNCTION taskyard.set_key_rule(
    p_clock bigint, p_pattern text, p_limit integer, p_actor text) RETURNS void
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_keys   text[];
    v_before bigint[];
    v_gained bigint[];
BEGIN
    PERFORM taskyard.lock_room();
    SELECT array_agg(w.key), array_agg(taskyard.key_limit(w.key)) INTO v_keys, v_before
      FROM taskyard.waited_keys() AS w;
    IF p_limit IS NULL THEN
        DELETE FROM taskyard.key_rules WHERE pattern = p_pattern;
    ELSE
        INSERT INTO taskyard.key_rules (pattern, prefix, key_limit)
        VALUES (p_pattern, CASE WHEN right(p_pattern, 1) = '*' THEN left(p_pattern, -1) END, p_limit)
            ON CONFLICT (pattern) DO UPDATE SET key_limit = excluded.key_limit;
    END IF;
    IF v_keys IS NOT NULL THEN
        SELECT array_agg(taskyard.key_limit(k.key) - k.before ORDER BY k.at) INTO v_gained
          FROM unnest(v_keys, v_before) WITH ORDINALITY AS k (key, before, at);
        PERFORM taskyard.wake(v_keys, v_gained, 1);
    END IF;
    PERFORM taskyard.note(taskyard.moment(p_clock), p_actor, 'set_key_rule', 'key:' || p_pattern,
                          CASE WHEN p_limit IS NULL THEN 'removed' ELSE 'limit ' || p_limit END);
    PERFORM taskyard.tell();
END
$$;
