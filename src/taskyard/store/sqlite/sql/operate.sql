-- :look  what a verb needs to know of a task
SELECT json_object('no', t.no, 'lane', l.name, 'order', l.lane_order, 'ageing', l.ageing, 'state', t.state,
                   'priority', t.priority, 'rank', t.rank, 'keys', json(coalesce(t.keys, '[]')),
                   'dedup', t.dedup, 'asked', t.asked, 'run_at', t.run_at, 'waits_for', t.waits_for,
                   'awaited', json(iif(t.awaited, 'true', 'false')))
  FROM taskyard_tasks AS t CROSS JOIN taskyard_lanes AS l ON l.no = t.lane WHERE t.id = ?1

-- :cancel  a task that waits
UPDATE taskyard_tasks
   SET state = 'cancelled', reason = ?3, ended_at = ?2, parked_on = NULL,
       dedup_held = iif(dedup_held IS NULL, NULL, 0)
 WHERE no = ?1

-- :ask  a task that runs
UPDATE taskyard_tasks SET asked = ?2 WHERE no = ?1 AND state = 'running'

-- :revive  a new life: a full budget, a new place, nothing to wait for; the attempt goes on counting
UPDATE taskyard_tasks
   SET charged = 0, losses = 0, seq = ?2, run_at = ?3, waits_for = 0,
       started_at = NULL, ended_at = NULL, node = NULL, taken_by = NULL, deadline = NULL,
       dedup_held = iif(dedup IS NULL, NULL, 1)
 WHERE no = ?1

-- :kept_by  who keeps a dedup key now
SELECT id FROM taskyard_tasks WHERE dedup = ?1 AND dedup_held = 1

-- :drop_result
DELETE FROM taskyard_results WHERE no = ?1

-- :prioritize  parked tasks are looked at again: their place among the waiters has changed
UPDATE taskyard_tasks SET priority = ?2, rank = ?3, parked_on = NULL WHERE no = ?1
