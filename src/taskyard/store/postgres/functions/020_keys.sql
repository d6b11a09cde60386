-- key_rule: limit and rate of a key: by the exact rule, else that of the longest prefix, else 1 and none.
CREATE OR REPLACE FUNCTION taskyard.key_rule(
    p_key text, OUT o_limit integer, OUT o_interval bigint, OUT o_burst integer)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT key_limit, rate_interval, rate_burst INTO o_limit, o_interval, o_burst FROM taskyard.key_rules
     WHERE pattern = p_key AND prefix IS NULL
        OR prefix IS NOT NULL AND starts_with(p_key, prefix)
     ORDER BY prefix IS NULL DESC, length(prefix) DESC LIMIT 1;
    o_limit := coalesce(o_limit, 1);
END
$$;

CREATE OR REPLACE FUNCTION taskyard.key_limit(p_key text) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT r.o_limit FROM taskyard.key_rule(p_key) AS r);
END
$$;

-- key_places: how many more may hold a key; counted over what runs.
CREATE OR REPLACE FUNCTION taskyard.key_places(p_key text) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN taskyard.key_limit(p_key)
         - (SELECT count(*) FROM taskyard.held WHERE key = p_key)::integer;
END
$$;

-- key_rooms: how many more with each of these keys may start now: as its places and the tokens of its rate
-- allow. In the order of the keys.
CREATE OR REPLACE FUNCTION taskyard.key_rooms(p_now bigint, p_keys text[]) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM taskyard.key_rules) THEN
        -- All have the limit 1: who holds a key need not be counted.
        RETURN ARRAY(
            SELECT CASE WHEN (SELECT true FROM taskyard.held AS a WHERE a.key = k.key LIMIT 1) THEN 0 ELSE 1 END
              FROM (SELECT unnest(p_keys) AS key) AS k);
    END IF;
    RETURN (
        SELECT array_agg(
                   least(coalesce(r.key_limit, 1) - h.n,
                         CASE WHEN r.rate_interval IS NOT NULL THEN taskyard.tokens(
                             r.rate_interval, r.rate_burst, taskyard.full_at(0, k.key), p_now) END)
                   ORDER BY k.at)
          FROM unnest(p_keys) WITH ORDINALITY AS k (key, at)
               LEFT JOIN LATERAL (  -- as in key_rule
                   SELECT a.key_limit, a.rate_interval, a.rate_burst FROM taskyard.key_rules AS a
                    WHERE a.pattern = k.key AND a.prefix IS NULL
                       OR a.prefix IS NOT NULL AND starts_with(k.key, a.prefix)
                    ORDER BY a.prefix IS NULL DESC, length(a.prefix) DESC LIMIT 1) AS r ON true
               CROSS JOIN LATERAL (
                   SELECT count(*)::integer AS n FROM taskyard.held AS a WHERE a.key = k.key) AS h);
END
$$;

CREATE OR REPLACE FUNCTION taskyard.key_room(p_now bigint, p_key text) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (taskyard.key_rooms(p_now, ARRAY[p_key]))[1];
END
$$;

-- waited_keys_with: the keys that begin like this and someone is parked on, one index seek each.
CREATE OR REPLACE FUNCTION taskyard.waited_keys_with(p_prefix text) RETURNS TABLE (key text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    WITH RECURSIVE waited (key) AS (
        SELECT (SELECT w.key FROM taskyard.parked AS w WHERE w.key >= p_prefix ORDER BY w.key LIMIT 1)
        UNION ALL
        SELECT (SELECT w.key FROM taskyard.parked AS w WHERE w.key > waited.key ORDER BY w.key LIMIT 1)
          FROM waited WHERE starts_with(waited.key, p_prefix)
    )
    SELECT waited.key FROM waited WHERE starts_with(waited.key, p_prefix);
END
$$;

CREATE OR REPLACE FUNCTION taskyard.waited_keys() RETURNS TABLE (key text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT w.key FROM taskyard.waited_keys_with('') AS w;
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
CREATE OR REPLACE FUNCTION taskyard.wake(
    p_now bigint, p_keys text[], p_freed bigint[], p_set integer DEFAULT 1) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_keys       text[];
    v_freed      bigint[];
    v_lanes      integer[];
    v_routes     integer[];
    v_priorities smallint[];
    v_seqs       bigint[];
    v_missed     text[];
BEGIN
    SELECT array_agg(f.key), array_agg(f.freed) INTO v_keys, v_freed
      FROM unnest(p_keys, p_freed) AS f (key, freed)
     WHERE f.freed > 0 AND EXISTS (SELECT 1 FROM taskyard.parked AS w WHERE w.key = f.key);
    IF v_keys IS NULL THEN
        RETURN;
    END IF;
    WITH RECURSIVE open AS MATERIALIZED (
        SELECT f.key, least(f.freed, f.room) * p_set AS turns
          FROM unnest(v_keys, v_freed, taskyard.key_rooms(p_now, v_keys)) AS f (key, freed, room)
    ), head AS (
        SELECT o.key, o.turns, w.lane, w.route
          FROM open AS o
               CROSS JOIN LATERAL (
                   SELECT p.lane, p.route FROM taskyard.parked AS p WHERE p.key = o.key
                    ORDER BY p.lane, p.route, p.priority, p.seq LIMIT 1) AS w
         WHERE o.turns > 0
        UNION ALL
        SELECT h.key, h.turns, w.lane, w.route
          FROM head AS h
               CROSS JOIN LATERAL (
                   SELECT p.lane, p.route FROM taskyard.parked AS p
                    WHERE p.key = h.key AND (p.lane, p.route) > (h.lane, h.route)
                    ORDER BY p.lane, p.route, p.priority, p.seq LIMIT 1) AS w
    ), first AS MATERIALIZED (
        SELECT h.key, w.place
          FROM head AS h
               CROSS JOIN LATERAL (SELECT a.ranked FROM taskyard.lanes AS a WHERE a.no = h.lane OFFSET 0) AS l
               CROSS JOIN LATERAL (
                   -- In a ranked lane, those that came while it became one.
                   (SELECT p.ctid AS place FROM taskyard.parked AS p
                     WHERE p.key = h.key AND p.lane = h.lane AND p.route = h.route
                       AND p.priority >= CASE WHEN l.ranked THEN 1 ELSE 0 END
                     ORDER BY p.priority, p.seq LIMIT h.turns)
                   UNION ALL
                   (SELECT p.ctid FROM taskyard.parked AS p
                     WHERE l.ranked AND p.key = h.key AND p.lane = h.lane AND p.route = h.route
                       AND p.rank IS NOT NULL
                     ORDER BY p.rank, p.seq LIMIT h.turns)) AS w
    ), locked AS MATERIALIZED (
        SELECT p.ctid AS place FROM taskyard.parked AS p
         WHERE p.ctid = ANY (ARRAY(SELECT f.place FROM first AS f)) FOR UPDATE SKIP LOCKED
    ), missed AS MATERIALIZED (
        SELECT DISTINCT f.key FROM first AS f WHERE f.place NOT IN (SELECT k.place FROM locked AS k)
    ), instead AS MATERIALIZED (
        -- Whoever is being changed is passed over: as many are woken of those that are not.
        SELECT w.place
          FROM missed AS m
               JOIN head AS h ON h.key = m.key
               CROSS JOIN LATERAL (SELECT a.ranked FROM taskyard.lanes AS a WHERE a.no = h.lane OFFSET 0) AS l
               CROSS JOIN LATERAL (
                   SELECT a.place
                     FROM (SELECT p.ctid AS place FROM taskyard.parked AS p
                            WHERE p.key = h.key AND p.lane = h.lane AND p.route = h.route
                              AND p.priority >= CASE WHEN l.ranked THEN 1 ELSE 0 END
                            ORDER BY p.priority, p.seq LIMIT h.turns FOR UPDATE SKIP LOCKED) AS a
                   UNION ALL
                   SELECT a.place
                     FROM (SELECT p.ctid AS place FROM taskyard.parked AS p
                            WHERE l.ranked AND p.key = h.key AND p.lane = h.lane AND p.route = h.route
                              AND p.rank IS NOT NULL
                            ORDER BY p.rank, p.seq LIMIT h.turns FOR UPDATE SKIP LOCKED) AS a) AS w
    ), woken AS (
        DELETE FROM taskyard.parked
         WHERE ctid = ANY (ARRAY(SELECT k.place FROM locked AS k UNION SELECT n.place FROM instead AS n))
        RETURNING *
    ), queued AS (
        INSERT INTO taskyard.ready (seq, no, lane, route, attempt, charged, losses, priority, special,
                                    reason, keys, dedup, deadline, node, rank, grp, urgency)
        SELECT seq, no, lane, route, attempt, charged, losses, priority, special,
               reason, keys, dedup, deadline, node, rank, grp, urgency
          FROM woken
    )
    SELECT array_agg(w.lane), array_agg(w.route), array_agg(w.priority), array_agg(w.seq),
           (SELECT array_agg(m.key) FROM missed AS m)
      INTO v_lanes, v_routes, v_priorities, v_seqs, v_missed
      FROM woken AS w WHERE w.rank IS NULL;
    IF v_missed IS NOT NULL THEN
        INSERT INTO taskyard.second_looks (key) SELECT m.key FROM unnest(v_missed) AS m (key)
            ON CONFLICT DO NOTHING;
    END IF;
    PERFORM taskyard.watch_keys(p_now, v_keys);
    PERFORM taskyard.reopen(v_lanes, v_routes, v_priorities, v_seqs);
END
$$;

-- look_again: wake those who could not be woken when their key had room.
CREATE OR REPLACE FUNCTION taskyard.look_again(p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_keys text[];
BEGIN
    IF EXISTS (SELECT 1 FROM taskyard.second_looks) THEN
        PERFORM taskyard.lock_room();
        WITH gone AS (DELETE FROM taskyard.second_looks RETURNING key)
        SELECT array_agg(g.key) INTO v_keys FROM gone AS g;
        PERFORM taskyard.wake(p_now, v_keys, taskyard.key_rooms(p_now, v_keys)::bigint[]);
        PERFORM taskyard.tell();
    END IF;
END
$$;

-- passed_over: carriers of these keys (one entry a carrier) have gone without taking room, or have
-- given theirs back: others may take their turn, a set of them for each. Needs the lock.
CREATE OR REPLACE FUNCTION taskyard.passed_over(p_now bigint, p_keys text[], p_set integer DEFAULT 1) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_keys  text[];
    v_freed bigint[];
BEGIN
    IF p_keys IS NULL OR cardinality(p_keys) = 0 THEN
        RETURN;
    END IF;
    v_keys := ARRAY(SELECT k.key FROM unnest(p_keys) AS k (key)
                     WHERE (SELECT true FROM taskyard.parked AS w WHERE w.key = k.key LIMIT 1));
    IF cardinality(v_keys) = 0 THEN
        RETURN;  -- nobody waits
    END IF;
    SELECT array_agg(c.key), array_agg(c.n) INTO v_keys, v_freed
      FROM (SELECT k.key, count(*) AS n FROM unnest(v_keys) AS k (key) GROUP BY k.key) AS c;
    PERFORM taskyard.wake(p_now, v_keys, v_freed, p_set);
END
$$;

-- set_key_rule: set or (NULL) remove a rule, and wake as many as there is room for, by tokens too that
-- nobody has been told of.
CREATE OR REPLACE FUNCTION taskyard.set_key_rule(
    p_clock bigint, p_pattern text, p_limit integer, p_rate text, p_interval bigint, p_burst integer,
    p_detail text, p_actor text) RETURNS void
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now    bigint;
    v_prefix text := CASE WHEN right(p_pattern, 1) = '*' THEN left(p_pattern, -1) END;
    v_keys   text[] := CASE WHEN v_prefix IS NULL THEN ARRAY[p_pattern] END;
BEGIN
    PERFORM taskyard.lock_room();
    v_now := taskyard.moment(p_clock);
    IF v_prefix IS NOT NULL THEN
        SELECT array_agg(k.key) INTO v_keys
          FROM (SELECT w.key FROM taskyard.waited_keys_with(v_prefix) AS w
                 UNION SELECT b.key FROM taskyard.buckets AS b
                        WHERE b.lane = 0 AND b.key >= v_prefix AND starts_with(b.key, v_prefix)
                          AND b.full_at > v_now) AS k;
    END IF;
    IF p_limit IS NULL THEN
        DELETE FROM taskyard.key_rules WHERE pattern = p_pattern;
    ELSE
        INSERT INTO taskyard.key_rules (pattern, prefix, key_limit, rate, rate_interval, rate_burst)
        VALUES (p_pattern, v_prefix, p_limit, p_rate, p_interval, p_burst)
            ON CONFLICT (pattern) DO UPDATE
           SET key_limit = excluded.key_limit, rate = excluded.rate,
               rate_interval = excluded.rate_interval, rate_burst = excluded.rate_burst;
    END IF;
    IF v_keys IS NOT NULL THEN
        PERFORM taskyard.wake(v_now, v_keys, taskyard.key_rooms(v_now, v_keys)::bigint[]);
        -- Who is parked, or will be, waits for the tokens of the rate there is now.
        PERFORM taskyard.set_key_bucket(v_now, k.key, r.o_interval, r.o_burst, taskyard.full_at(0, k.key))
           FROM unnest(v_keys) AS k (key) CROSS JOIN LATERAL taskyard.key_rule(k.key) AS r
          WHERE r.o_interval IS NOT NULL AND taskyard.full_at(0, k.key) > v_now;
    END IF;
    PERFORM taskyard.note(v_now, p_actor, 'set_key_rule', 'key:' || p_pattern, p_detail);
    PERFORM taskyard.tell();
END
$$;
