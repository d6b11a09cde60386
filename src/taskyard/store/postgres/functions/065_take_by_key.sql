-- take_by_key: fill all slots from a queue in which each of the first tasks has one key with room, and nothing
-- limits them but that: as search_exactly would, in five statements, as nearly all turns of tasks with keys have it.
-- Answers as take_from_stream does, or no numbers if it is not as simple as that; nothing is taken then, but
-- o_locked of the first tasks are locked. Nothing of such a queue is claimed ahead, so it is left to search_exactly
-- if a task without keys follows soon. Needs the lock of the room.
CREATE OR REPLACE FUNCTION taskyard.take_by_key(
    p_now bigint, p_lease bigint, p_number bigint, p_slots integer, p_ahead integer, p_part taskyard.stretch,
    OUT o_no bigint[], OUT o_id text[], OUT o_route integer[], OUT o_lane integer[], OUT o_attempt integer[],
    OUT o_charged integer[], OUT o_max_charged integer[], OUT o_timeout bigint[], OUT o_payload text[],
    OUT o_losses integer[], OUT o_run_at bigint[], OUT o_priority smallint[], OUT o_origins json,
    OUT o_dedup text[], OUT o_late tid[], OUT o_cut boolean, OUT o_limited boolean, OUT o_locked integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_lane    integer := p_part.lane;
    v_places  tid[];
    v_nos     bigint[];
    v_keys    text[];
    v_tries   integer[];
    v_charged integer[];
    v_losses  integer[];
    v_last    bigint;
    v_fits    boolean;
    v_fresh   boolean;  -- none was claimed before
    v_alike   boolean;  -- they have the same limits
BEGIN
    o_cut := false;
    o_limited := false;
    IF p_part.room IS NOT NULL OR p_slots <= 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(x.place), array_agg(x.no), array_agg(x.keys[1]), array_agg(x.attempt + 1), array_agg(x.charged),
           array_agg(x.losses), max(x.seq), bool_and(x.attempt = 0 AND x.charged = 0 AND x.losses = 0),
           count(*) = p_slots AND count(x.dedup) = 0
           AND bool_and(coalesce(cardinality(x.keys), 0) = 1 AND NOT coalesce(x.deadline <= p_now, false)), count(*)
      INTO v_places, v_nos, v_keys, v_tries, v_charged, v_losses, v_last, v_fresh, v_fits, o_locked
      FROM (SELECT q.ctid AS place, q.no, q.seq, q.attempt, q.charged, q.losses, q.keys, q.dedup, q.deadline
              FROM taskyard.ready AS q
             WHERE q.lane = p_part.lane AND q.route = p_part.route AND q.priority = p_part.priority
               AND q.seq >= p_part.floor
             ORDER BY q.seq LIMIT p_slots FOR UPDATE SKIP LOCKED) AS x;
    IF NOT v_fits OR NOT (  -- not above: to count what is distinct, all is sorted
        SELECT count(DISTINCT u.key) = p_slots AND bool_and(u.room > 0)
          FROM unnest(v_keys, taskyard.key_rooms(p_now, v_keys)) AS u (key, room))
    THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT 1 FROM taskyard.key_rules AS k WHERE k.rate IS NOT NULL) OR p_ahead > 0 AND EXISTS (
        SELECT 1
          FROM (SELECT q.special FROM taskyard.ready AS q
                 WHERE q.lane = p_part.lane AND q.route = p_part.route AND q.priority = p_part.priority
                   AND q.seq > v_last
                 ORDER BY q.seq LIMIT least(p_ahead, 100)) AS x
         WHERE NOT x.special)
    THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM taskyard.ready WHERE ctid = ANY (v_places)
    ), started AS (
        INSERT INTO taskyard.running (no, lease, request, started_at, attempt, lane, charged, losses, keys)
        SELECT u.no, p_lease, p_number, p_now, u.attempt, v_lane, u.charged, u.losses, ARRAY[u.key]
          FROM (SELECT unnest(v_nos) AS no, unnest(v_tries) AS attempt, unnest(v_charged) AS charged,
                       unnest(v_losses) AS losses, unnest(v_keys) AS key) AS u
    ), holds AS (
        INSERT INTO taskyard.held (key, no) SELECT unnest(v_keys), unnest(v_nos)
    )
    SELECT array_agg(d.id), array_agg(d.payload), array_agg(d.run_at), array_agg(d.max_charged),
           array_agg(d.timeout), min(d.max_charged) = max(d.max_charged) AND min(d.timeout) = max(d.timeout),
           json_object_agg(d.no, json_build_array(d.trace, d.run_at <= d.created_at)) FILTER (WHERE d.trace IS NOT NULL)
      INTO o_id, o_payload, o_run_at, o_max_charged, o_timeout, v_alike, o_origins
      FROM (SELECT unnest(v_nos) AS no) AS u  -- in order, and so what comes of it
           CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = u.no OFFSET 0) AS d;
    IF cardinality(o_id) IS DISTINCT FROM cardinality(v_nos) THEN
        SELECT * INTO v_nos, v_tries, v_charged, v_losses
          FROM taskyard.those_known(v_nos, v_tries, v_charged, v_losses);
    END IF;
    o_no := v_nos;
    o_route := ARRAY[p_part.route];
    o_lane := ARRAY[p_part.lane];
    IF v_alike THEN
        o_max_charged := o_max_charged[1:1];
        o_timeout := o_timeout[1:1];
    END IF;
    o_attempt := CASE WHEN v_fresh THEN '{1}' ELSE v_tries END;
    o_charged := CASE WHEN v_fresh THEN '{0}' ELSE v_charged END;
    o_losses := CASE WHEN v_fresh THEN '{0}' ELSE v_losses END;
END
$$;
