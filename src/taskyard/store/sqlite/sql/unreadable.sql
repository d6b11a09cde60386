-- :check  what the verbs read of these tasks, all of it
SELECT json_group_array(json_array(
           t.no, t.id, t.lane, t.route, t.priority, t.rank, t.seq, t.state, t.reason, t.attempt, t.charged,
           t.max_charged, t.losses, t.lease, t.request, t.asked, json(coalesce(t.keys, '[]')), t.parked_on,
           t.grp, t.dedup, t.dedup_until, t.dedup_held, t.timeout, t.deadline, t.created_at, t.run_at,
           t.started_at, t.rotation, t.waits_for, t.on_failure, t.awaited))
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value

-- :id  as bytes, which can always be read
SELECT CAST(id AS BLOB) FROM taskyard_tasks WHERE no = ?1

-- :log  what happened to a task; to one that waited, in place of its next attempt
INSERT OR REPLACE INTO taskyard_failures (no, attempt, reason, at, type, message, stack)
SELECT no, CAST(attempt AS INTEGER) + (state <> 'running'), 'undecodable', ?2, ?3, ?4, ''
  FROM taskyard_tasks WHERE no = ?1

-- :set_aside  end these; nothing leads from paused to failed, so the system cancels such a one
UPDATE taskyard_tasks
   SET state = iif(state = 'paused', 'cancelled', 'failed'),
       reason = iif(state = 'paused', 'system', 'undecodable'), ended_at = ?2, parked_on = NULL,
       lease = NULL, request = NULL, asked = NULL, dedup_held = iif(dedup_held IS NULL, NULL, 0)
 WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :release  what these held; few tasks run, so all holds are looked at
DELETE FROM taskyard_held WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :endings  of those of these that others depend on
SELECT json_group_array(json_array(t.id, t.state))
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value AND t.awaited IS NOT NULL

-- :ready  what may be claimed in these lanes
SELECT json_group_array(t.no)
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t INDEXED BY taskyard_ready
 WHERE t.state = 'queued' AND t.parked_on IS NULL AND t.lane = v.value

-- :parked
SELECT json_group_array(no) FROM taskyard_tasks INDEXED BY taskyard_parked_lane WHERE parked_on IS NOT NULL

-- :in_lane  what is queued or runs in a lane
SELECT json_group_array(no) FROM (
    SELECT no FROM taskyard_tasks INDEXED BY taskyard_ready
     WHERE state = 'queued' AND parked_on IS NULL AND lane = ?1
    UNION ALL
    SELECT no FROM taskyard_tasks INDEXED BY taskyard_parked_lane WHERE parked_on IS NOT NULL AND lane = ?1
    UNION ALL
    SELECT no FROM taskyard_tasks INDEXED BY taskyard_running WHERE state = 'running' AND lane = ?1)

-- :late
SELECT json_group_array(no) FROM taskyard_tasks INDEXED BY taskyard_deadlines
 WHERE deadline IS NOT NULL AND state IN ('pending', 'queued') AND deadline <= ?1

-- :under  what runs under a lease
SELECT json_group_array(no) FROM taskyard_tasks INDEXED BY taskyard_running
 WHERE state = 'running' AND lease = ?1

-- :dependents  those that wait for the end of these
SELECT json_group_array(d.no)
  FROM jsonb_each(?1) AS v
       CROSS JOIN taskyard_dependencies AS d INDEXED BY taskyard_dependents ON d.id = v.value AND d.unmet = 1
