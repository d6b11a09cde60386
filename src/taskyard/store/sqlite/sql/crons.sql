-- :list  all entries by name, or the one named ?1
SELECT json_group_array(json_array(json(cron), next_at, last_at))
  FROM (SELECT cron, next_at, last_at FROM taskyard_crons WHERE ?1 IS NULL OR name = ?1 ORDER BY name)

-- :set  in place of one of that name; when that was last started stays
INSERT INTO taskyard_crons (name, cron, next_at) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET cron = excluded.cron, next_at = excluded.next_at

-- :drop
DELETE FROM taskyard_crons WHERE name = ?1

-- :fire
UPDATE taskyard_crons SET next_at = ?2, last_at = ?3 WHERE name = ?1
