-- :known  which of these ids are taken
SELECT json_group_array(t.id) FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.id = v.value

-- :keepers  the tasks that keep these dedup keys
SELECT json_group_array(json_array(t.dedup, t.no, t.id, r.kind, t.state, t.waits_for, t.run_at))
  FROM jsonb_each(?1) AS v
       CROSS JOIN taskyard_tasks AS t INDEXED BY taskyard_dedup ON t.dedup = v.value AND t.dedup_held = 1
       CROSS JOIN taskyard_routes AS r ON r.no = t.route

-- :states  of these tasks
SELECT json_group_object(t.id, t.state)
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.id = v.value

-- :depth  how many wait in a lane, up to ?2
SELECT count(*) FROM (
    SELECT 1 FROM (
        SELECT no FROM taskyard_tasks INDEXED BY taskyard_ready
         WHERE state = 'queued' AND parked_on IS NULL AND lane = ?1
        UNION ALL
        SELECT no FROM taskyard_tasks INDEXED BY taskyard_parked_lane WHERE parked_on IS NOT NULL AND lane = ?1
        UNION ALL
        SELECT no FROM taskyard_tasks INDEXED BY taskyard_pending_lane WHERE state = 'pending' AND lane = ?1)
     LIMIT ?2)

-- :replace_payloads
UPDATE taskyard_payloads AS p SET payload = v.value ->> 1 FROM jsonb_each(?1) AS v WHERE p.no = v.value ->> 0

-- :forget_traces
DELETE FROM taskyard_traces WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :put_off  let these wait until a later time
UPDATE taskyard_tasks AS t SET run_at = v.value ->> 1
  FROM jsonb_each(?1) AS v WHERE t.no = v.value ->> 0 AND t.run_at < v.value ->> 1
