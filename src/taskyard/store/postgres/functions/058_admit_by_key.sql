-- admit_by_key: the rule of domain/admission.py for a queue in which each task has one key and nothing else
-- that is particular, in two statements in place of a loop. Looks at the first p_most of this stretch and
-- fills up to p_slots: answers where those stand that may start, which they are, and where those stand that
-- came before the last of them and wait for which key. o_fits is false, and nothing else is answered, where
-- the rule is not as simple as that. Needs the lock of the room.
CREATE OR REPLACE FUNCTION taskyard.admit_by_key(
    p_now bigint, p_part taskyard.stretch, p_slots integer, p_most integer,
    OUT o_fits boolean, OUT o_start tid[], OUT o_nos bigint[], OUT o_park tid[], OUT o_keys text[],
    OUT o_cut boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_places tid[];
    v_nos    bigint[];
    v_keys   text[];
    v_rooms  integer[];
BEGIN
    o_fits := false;
    IF p_part.lane_order <> 'priority' OR p_part.ranked OR p_part.room <= 0 THEN
        RETURN;
    END IF;
    SELECT array_agg(x.place), array_agg(x.no), array_agg(x.keys[1]), count(*) = p_most,
           bool_and(coalesce(cardinality(x.keys), 0) = 1 AND NOT coalesce(x.deadline <= p_now, false))
      INTO v_places, v_nos, v_keys, o_cut, o_fits
      FROM (SELECT q.ctid AS place, q.no, q.keys, q.deadline FROM taskyard.ready AS q
             WHERE q.lane = p_part.lane AND q.route = p_part.route AND q.priority = p_part.priority
               AND q.seq >= p_part.floor
             ORDER BY q.seq LIMIT p_most) AS x;
    o_fits := coalesce(o_fits, false);
    IF NOT o_fits THEN
        RETURN;
    END IF;
    v_rooms := taskyard.key_rooms(p_now, v_keys);
    SELECT coalesce(array_agg(j.place) FILTER (WHERE j.is_free AND j.used <= j.most), '{}'),
           coalesce(array_agg(j.no) FILTER (WHERE j.is_free AND j.used <= j.most), '{}'),
           coalesce(array_agg(j.place) FILTER (WHERE NOT j.is_free AND j.used < j.most), '{}'),
           coalesce(array_agg(j.key) FILTER (WHERE NOT j.is_free AND j.used < j.most), '{}')
      INTO o_start, o_nos, o_park, o_keys
      FROM (SELECT c.place, c.no, c.key, c.is_free, least(p_slots, p_part.room) AS most,
                   count(*) FILTER (WHERE c.is_free) OVER (ORDER BY c.at) AS used  -- with this one
              FROM (SELECT u.*, u.room >= row_number() OVER (PARTITION BY u.key ORDER BY u.at) AS is_free
                      FROM unnest(v_places, v_nos, v_keys, v_rooms) WITH ORDINALITY
                               AS u (place, no, key, room, at)) AS c
             ORDER BY c.at) AS j;
END
$$;
