-- :look  what an operator's verb needs to know of a task
SELECT json_object('no', no, 'state', state, 'attempt', attempt, 'priority', priority,
                   'keys', json(coalesce(keys, '[]')), 'dedup', dedup,
                   'parked', json(iif(parked_on IS NULL, 'false', 'true')))
  FROM taskyard_tasks WHERE id = ?1

-- :cancel  a task that waits
UPDATE taskyard_tasks
   SET state = 'cancelled', reason = 'operator', ended_at = ?2, parked_on = NULL,
       dedup_held = iif(dedup_held IS NULL, NULL, 0)
 WHERE no = ?1

-- :ask  a task that runs
UPDATE taskyard_tasks SET asked = ?2 WHERE no = ?1 AND state = 'running'

-- :revive  a new life: a full budget, a new place; the attempt goes on counting
UPDATE taskyard_tasks
   SET state = 'queued', reason = 'operator', charged = 0, losses = 0, seq = ?2, run_at = ?3,
       started_at = NULL, ended_at = NULL, node = NULL, deadline = NULL,
       dedup_held = iif(dedup IS NULL, NULL, 1)
 WHERE no = ?1

-- :kept_by  who keeps a dedup key now
SELECT id FROM taskyard_tasks WHERE dedup = ?1 AND dedup_held = 1

-- :drop_result
DELETE FROM taskyard_results WHERE no = ?1

-- :prioritize  parked tasks are looked at again: their place among the waiters has changed
UPDATE taskyard_tasks SET priority = ?2, parked_on = NULL WHERE no = ?1

-- :find_lane
SELECT no FROM taskyard_lanes WHERE name = ?1

-- :set_capacity
UPDATE taskyard_lanes SET capacity = ?2 WHERE name = ?1

-- :set_paused
UPDATE taskyard_lanes SET paused = ?2, paused_reason = ?3 WHERE name = ?1

-- :pause_yard
UPDATE taskyard_meta SET value = ?1 WHERE name = 'paused'
