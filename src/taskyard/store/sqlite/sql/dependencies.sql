-- :save
INSERT INTO taskyard_dependencies (no, place, id, unmet)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM jsonb_each(?1)

-- :await  remember of these that another depends on them
UPDATE taskyard_tasks SET awaited = 1 WHERE id IN (SELECT value FROM jsonb_each(?1)) AND awaited IS NULL

-- :dependents  who waits for the end of these, in the order they ended, then of arrival
SELECT json_group_array(json_array(t.no, t.id, t.state, t.run_at, t.waits_for, t.on_failure,
                                   json(iif(t.awaited, 'true', 'false')), v.value))
  FROM jsonb_each(?1) AS v
       CROSS JOIN taskyard_dependencies AS d INDEXED BY taskyard_dependents ON d.id = v.value AND d.unmet = 1
       CROSS JOIN taskyard_tasks AS t ON t.no = d.no AND t.state IN ('pending', 'paused') AND t.waits_for > 0

-- :meet  these have ended
UPDATE taskyard_dependencies SET unmet = 0 WHERE id IN (SELECT value FROM jsonb_each(?1)) AND unmet = 1

-- :wait_for
UPDATE taskyard_tasks AS t SET waits_for = v.value ->> 1 FROM jsonb_each(?1) AS v WHERE t.no = v.value ->> 0

-- :cancel  those that are not to run without what they depend on
UPDATE taskyard_tasks
   SET state = 'cancelled', reason = 'dependency', ended_at = ?2, dedup_held = iif(dedup_held IS NULL, NULL, 0)
 WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :unmet
SELECT json_group_array(id)
  FROM (SELECT id FROM taskyard_dependencies WHERE no = ?1 AND unmet = 1 ORDER BY place LIMIT ?2)

-- :ids  what a task depends on
SELECT json_group_array(id) FROM (SELECT id FROM taskyard_dependencies WHERE no = ?1 ORDER BY place)
