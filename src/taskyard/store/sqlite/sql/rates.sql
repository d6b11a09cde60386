-- :buckets  of these keys
SELECT json_group_object(b.key, json_array(b.full_at, b.opens_at))
  FROM jsonb_each(?1) AS k CROSS JOIN taskyard_buckets AS b ON b.key = k.value

-- :put
INSERT INTO taskyard_buckets (key, full_at, opens_at)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM jsonb_each(?1) WHERE TRUE
    ON CONFLICT (key) DO UPDATE SET full_at = excluded.full_at, opens_at = excluded.opens_at

-- :due  the keys that were to have a token by now
SELECT json_group_array(key)
  FROM (SELECT key FROM taskyard_buckets INDEXED BY taskyard_buckets_opening
         WHERE opens_at IS NOT NULL AND opens_at <= ?1 ORDER BY opens_at LIMIT ?2)

-- :keys
SELECT json_group_array(key) FROM taskyard_buckets

-- :tell_nobody
UPDATE taskyard_buckets SET opens_at = NULL WHERE key IN (SELECT value FROM jsonb_each(?1))

-- :forget_full  up to ?2 of those that are full and of interest to nobody
DELETE FROM taskyard_buckets
 WHERE key IN (SELECT key FROM taskyard_buckets INDEXED BY taskyard_buckets_full
                WHERE full_at <= ?1 AND opens_at IS NULL ORDER BY full_at LIMIT ?2)

-- :set_lane_rate  without one, nothing is remembered of what was taken
UPDATE taskyard_lanes SET rate = ?2, full_at = iif(?2 IS NULL, NULL, full_at), opens_at = NULL WHERE no = ?1

-- :lane_rate  if it has one
SELECT json_group_array(json(rate)) FROM taskyard_lanes WHERE no = ?1 AND rate IS NOT NULL

-- :lane_full
SELECT full_at FROM taskyard_lanes WHERE no = ?1

-- :put_lane
UPDATE taskyard_lanes SET full_at = ?2, opens_at = ?3 WHERE no = ?1

-- :lanes_due  the lanes that were to have a token by now; answers how many
UPDATE taskyard_lanes SET opens_at = NULL WHERE opens_at <= ?1
