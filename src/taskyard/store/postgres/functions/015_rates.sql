-- Token buckets, as domain/rate.py has them: a bucket is the instant at which it will be full again.

CREATE OR REPLACE FUNCTION taskyard.tokens(
    p_interval bigint, p_burst integer, p_full_at bigint, p_now bigint) RETURNS integer
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN greatest(0, (p_burst * p_interval - greatest(0, p_full_at - p_now)) / p_interval)::integer;
END
$$;

-- opens_at: when a bucket will hold one token more than now.
CREATE OR REPLACE FUNCTION taskyard.opens_at(
    p_interval bigint, p_burst integer, p_full_at bigint, p_now bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN p_full_at - (p_burst - taskyard.tokens(p_interval, p_burst, p_full_at, p_now) - 1) * p_interval;
END
$$;

-- full_at: of the bucket of a lane or of a key; 0 if it is full.
CREATE OR REPLACE FUNCTION taskyard.full_at(p_lane integer, p_key text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT b.full_at FROM taskyard.buckets AS b WHERE b.lane = p_lane AND b.key = p_key
                      ORDER BY b.entry DESC LIMIT 1), 0);
END
$$;

-- set_bucket: the next entry of a bucket in place of the last. Needs the lock of the room.
CREATE OR REPLACE FUNCTION taskyard.set_bucket(
    p_lane integer, p_key text, p_full_at bigint, p_opens_at bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_old bigint;
BEGIN
    SELECT b.entry INTO v_old FROM taskyard.buckets AS b WHERE b.lane = p_lane AND b.key = p_key
     ORDER BY b.entry DESC LIMIT 1;
    -- Higher than that of a bucket that was removed, too: behind its dead rows it would be found late.
    INSERT INTO taskyard.buckets (lane, key, entry, full_at, opens_at)
    VALUES (p_lane, p_key, greatest(coalesce(v_old, 0) + 1, taskyard.wall_clock()), p_full_at, p_opens_at);
    DELETE FROM taskyard.buckets AS b WHERE b.lane = p_lane AND b.key = p_key AND b.entry = v_old;
END
$$;

-- take_tokens: tasks of these lanes, with these keys, have been claimed (one entry each). A token of a key
-- that came meanwhile, and is still there, is one that nobody has been told of: that moment stays. Needs
-- the lock of the room.
CREATE OR REPLACE FUNCTION taskyard.take_tokens(p_now bigint, p_lanes integer[], p_keys text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_one    record;
    v_full   bigint;
    v_untold bigint;
BEGIN
    FOR v_one IN
        SELECT l.no, l.rate_interval AS gap, l.rate_burst AS burst,
               (SELECT count(*) FROM unnest(p_lanes) AS u (lane) WHERE u.lane = l.no) AS n
          FROM taskyard.lanes AS l
         WHERE l.no = ANY (p_lanes) AND l.rate_interval IS NOT NULL
    LOOP
        v_full := greatest(taskyard.full_at(v_one.no, ''), p_now) + v_one.n * v_one.gap;
        PERFORM taskyard.set_bucket(
            v_one.no, '', v_full,
            CASE WHEN taskyard.tokens(v_one.gap, v_one.burst, v_full, p_now) = 0
                 THEN taskyard.opens_at(v_one.gap, v_one.burst, v_full, p_now) END);
    END LOOP;
    IF p_keys IS NULL OR NOT EXISTS (SELECT 1 FROM taskyard.key_rules AS k WHERE k.rate IS NOT NULL) THEN
        RETURN;
    END IF;
    FOR v_one IN
        SELECT c.key, r.o_interval AS gap, r.o_burst AS burst, c.n
          FROM (SELECT u.key, count(*) AS n FROM unnest(p_keys) AS u (key) GROUP BY u.key) AS c
               CROSS JOIN LATERAL taskyard.key_rule(c.key) AS r
         WHERE r.o_interval IS NOT NULL
    LOOP
        SELECT b.full_at, b.opens_at INTO v_full, v_untold FROM taskyard.buckets AS b
         WHERE b.lane = 0 AND b.key = v_one.key ORDER BY b.entry DESC LIMIT 1;
        v_full := greatest(v_full, p_now) + v_one.n * v_one.gap;
        IF v_untold <= p_now AND taskyard.tokens(v_one.gap, v_one.burst, v_full, p_now) > 0 THEN
            PERFORM taskyard.set_bucket(0, v_one.key, v_full, v_untold);
        ELSE
            PERFORM taskyard.set_key_bucket(p_now, v_one.key, v_one.gap, v_one.burst, v_full);
        END IF;
    END LOOP;
END
$$;

-- set_key_bucket: with the moment at which whoever is parked on the key is to be looked at again.
CREATE OR REPLACE FUNCTION taskyard.set_key_bucket(
    p_now bigint, p_key text, p_interval bigint, p_burst integer, p_full_at bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_tokens integer := taskyard.tokens(p_interval, p_burst, p_full_at, p_now);
BEGIN
    PERFORM taskyard.set_bucket(
        0, p_key, p_full_at,
        CASE WHEN v_tokens = 0
               OR v_tokens < p_burst AND EXISTS (SELECT 1 FROM taskyard.parked AS w WHERE w.key = p_key)
             THEN taskyard.opens_at(p_interval, p_burst, p_full_at, p_now) END);
END
$$;

-- watch_keys: while somebody is parked on one of these keys, its next token is to be told of, whatever else
-- keeps that one waiting now. Needs the lock of the room.
CREATE OR REPLACE FUNCTION taskyard.watch_keys(p_now bigint, p_keys text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM taskyard.key_rules AS k WHERE k.rate IS NOT NULL) THEN
        RETURN;
    END IF;
    PERFORM taskyard.set_key_bucket(p_now, k.key, r.o_interval, r.o_burst, b.full_at)
       FROM (SELECT DISTINCT u.key FROM unnest(p_keys) AS u (key)) AS k
            CROSS JOIN LATERAL taskyard.key_rule(k.key) AS r
            CROSS JOIN LATERAL (
                SELECT a.full_at, a.opens_at FROM taskyard.buckets AS a WHERE a.lane = 0 AND a.key = k.key
                 ORDER BY a.entry DESC LIMIT 1) AS b
      WHERE r.o_interval IS NOT NULL AND b.opens_at IS NULL AND b.full_at > p_now
        AND EXISTS (SELECT 1 FROM taskyard.parked AS w WHERE w.key = k.key);
END
$$;

-- open_buckets: tell those who wait for a token that has come; answers for how many buckets. Buckets
-- that are full again go. Of both no more than p_limit, the oldest first.
CREATE OR REPLACE FUNCTION taskyard.open_buckets(p_now bigint, p_limit integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_count  bigint := 0;
    v_bucket taskyard.buckets%ROWTYPE;
    v_rule   record;
    v_tokens integer;
BEGIN
    IF EXISTS (SELECT 1 FROM taskyard.buckets AS b WHERE b.opens_at <= p_now) THEN
        PERFORM taskyard.lock_room();
        FOR v_bucket IN
            SELECT * FROM taskyard.buckets AS b WHERE b.opens_at <= p_now ORDER BY b.opens_at LIMIT p_limit
        LOOP
            v_count := v_count + 1;
            SELECT * INTO v_rule FROM taskyard.key_rule(v_bucket.key);
            IF v_bucket.lane <> 0 OR v_rule.o_interval IS NULL THEN
                PERFORM taskyard.set_bucket(v_bucket.lane, v_bucket.key, v_bucket.full_at, NULL);
                CONTINUE;
            END IF;
            v_tokens := taskyard.tokens(v_rule.o_interval, v_rule.o_burst, v_bucket.full_at, p_now);
            PERFORM taskyard.wake(p_now, ARRAY[v_bucket.key], ARRAY[v_tokens::bigint]);
            PERFORM taskyard.set_bucket(
                0, v_bucket.key, v_bucket.full_at,
                CASE WHEN v_tokens < v_rule.o_burst
                      AND EXISTS (SELECT 1 FROM taskyard.parked AS w WHERE w.key = v_bucket.key)
                     THEN taskyard.opens_at(v_rule.o_interval, v_rule.o_burst, v_bucket.full_at, p_now) END);
        END LOOP;
        PERFORM taskyard.tell();
    END IF;
    IF EXISTS (SELECT 1 FROM taskyard.buckets AS b WHERE b.opens_at IS NULL AND b.full_at <= p_now) THEN
        DELETE FROM taskyard.buckets WHERE ctid = ANY (ARRAY(
            SELECT b.ctid FROM taskyard.buckets AS b WHERE b.opens_at IS NULL AND b.full_at <= p_now
             ORDER BY b.full_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    END IF;
    RETURN v_count;
END
$$;
