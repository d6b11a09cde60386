-- :rules
SELECT json_group_array(json_array(pattern, key_limit, json(rate))) FROM taskyard_key_rules

-- :held  how many hold each of these keys
SELECT json_group_object(key, holders)
  FROM (SELECT h.key, count(*) AS holders
          FROM jsonb_each(?1) AS k CROSS JOIN taskyard_held AS h ON h.key = k.value
         GROUP BY h.key)

-- :heads  the first waiter for each of these keys in every lane and route that waits for it
-- A waiter in a full lane must not stand before one in a lane with room, hence one for each.
WITH RECURSIVE head (key, no) AS (
    SELECT k.value, (SELECT no FROM taskyard_tasks INDEXED BY taskyard_parked
                      WHERE parked_on = k.value
                      ORDER BY lane, route, rank, seq LIMIT 1)
      FROM jsonb_each(?1) AS k
    UNION ALL
    SELECT head.key, coalesce(
               (SELECT t.no FROM taskyard_tasks AS t INDEXED BY taskyard_parked
                 WHERE t.parked_on = head.key AND t.lane = h.lane AND t.route > h.route
                 ORDER BY t.route, t.rank, t.seq LIMIT 1),
               (SELECT t.no FROM taskyard_tasks AS t INDEXED BY taskyard_parked
                 WHERE t.parked_on = head.key AND t.lane > h.lane
                 ORDER BY t.lane, t.route, t.rank, t.seq LIMIT 1))
      FROM head CROSS JOIN taskyard_tasks AS h ON h.no = head.no
)
SELECT json_group_array(no) FROM head WHERE no IS NOT NULL

-- :waited  which of these keys someone is parked on
SELECT json_group_array(k.value) FROM jsonb_each(?1) AS k
 WHERE EXISTS (SELECT 1 FROM taskyard_tasks AS t INDEXED BY taskyard_parked WHERE t.parked_on = k.value)

-- :streams  the lanes and routes that wait for a key, one index seek or two each
WITH RECURSIVE head (no) AS (
    SELECT (SELECT no FROM taskyard_tasks INDEXED BY taskyard_parked
             WHERE parked_on = ?1 ORDER BY lane, route, rank, seq LIMIT 1)
    UNION ALL
    SELECT coalesce(
               (SELECT t.no FROM taskyard_tasks AS t INDEXED BY taskyard_parked
                 WHERE t.parked_on = ?1 AND t.lane = h.lane AND t.route > h.route
                 ORDER BY t.route, t.rank, t.seq LIMIT 1),
               (SELECT t.no FROM taskyard_tasks AS t INDEXED BY taskyard_parked
                 WHERE t.parked_on = ?1 AND t.lane > h.lane
                 ORDER BY t.lane, t.route, t.rank, t.seq LIMIT 1))
      FROM head CROSS JOIN taskyard_tasks AS h ON h.no = head.no
)
SELECT json_group_array(json_array(t.lane, t.route))
  FROM head CROSS JOIN taskyard_tasks AS t ON t.no = head.no
 WHERE typeof(t.lane) = 'integer' AND typeof(t.route) = 'integer'

-- :first  the first ?4 waiters for a key in one lane and route
SELECT json_group_array(no)
  FROM (SELECT no FROM taskyard_tasks INDEXED BY taskyard_parked
         WHERE parked_on = ?1 AND lane = ?2 AND route = ?3
         ORDER BY rank, seq LIMIT ?4)

-- :unpark
UPDATE taskyard_tasks SET parked_on = NULL WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :all_waited  the waited-for keys, one index seek each
WITH RECURSIVE waited (key) AS (
    SELECT min(parked_on) FROM taskyard_tasks WHERE parked_on IS NOT NULL
    UNION ALL
    SELECT (SELECT min(parked_on) FROM taskyard_tasks WHERE parked_on > waited.key)
      FROM waited WHERE waited.key IS NOT NULL
)
SELECT json_group_array(key) FROM waited WHERE key IS NOT NULL

-- :set_rule
INSERT INTO taskyard_key_rules (pattern, key_limit, rate) VALUES (?1, ?2, ?3)
    ON CONFLICT (pattern) DO UPDATE SET key_limit = excluded.key_limit, rate = excluded.rate

-- :drop_rule
DELETE FROM taskyard_key_rules WHERE pattern = ?1

-- :list  the keys that are held or waited for
SELECT json_group_array(json_object('name', key, 'limit', 0, 'holders', json(holders), 'waiting', waiting))
  FROM (SELECT k.key AS key,
               (SELECT json_group_array(t.id) FROM taskyard_held AS h
                  JOIN taskyard_tasks AS t ON t.no = h.no WHERE h.key = k.key) AS holders,
               (SELECT count(*) FROM taskyard_tasks AS t WHERE t.parked_on = k.key) AS waiting
          FROM (SELECT DISTINCT key FROM taskyard_held
                 UNION SELECT value FROM jsonb_each(?1)) AS k
         ORDER BY waiting DESC, key LIMIT ?2)
