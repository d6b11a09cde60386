-- Lists of numbers, newest first: below ?1, from ?2 on, ?3 of them at most. Each is a range of an index, and
-- is put into `numbers` or `passing`.

-- :every
SELECT no FROM taskyard_tasks WHERE no < ?1 AND no >= ?2 ORDER BY no DESC LIMIT ?3

-- :named  that name a key
SELECT no FROM taskyard_task_keys WHERE key = ?4 AND no < ?1 AND no >= ?2 ORDER BY no DESC LIMIT ?3

-- :ended
SELECT no, lane, route FROM taskyard_tasks INDEXED BY taskyard_ended
 WHERE ended_at IS NOT NULL AND state = ?4 AND no < ?1 AND no >= ?2 ORDER BY no DESC LIMIT ?3

-- :pending
SELECT no FROM taskyard_tasks INDEXED BY taskyard_pending_lane
 WHERE state = 'pending' AND lane = ?4 AND no < ?1 AND no >= ?2 ORDER BY no DESC LIMIT ?3

-- :parked
SELECT no FROM taskyard_tasks INDEXED BY taskyard_parked_lane
 WHERE parked_on IS NOT NULL AND lane = ?4 AND no < ?1 AND no >= ?2 ORDER BY no DESC LIMIT ?3

-- :running  all that runs is read, which is never more than nodes hold
SELECT no FROM taskyard_tasks INDEXED BY taskyard_running
 WHERE state = 'running' AND lane = ?4 AND no < ?1 AND no >= ?2 ORDER BY no DESC LIMIT ?3

-- :paused
SELECT no FROM taskyard_tasks INDEXED BY taskyard_live_paused
 WHERE state = 'paused' AND no < ?1 AND no >= ?2 ORDER BY no DESC LIMIT ?3

-- :ready  the one index that is in another order: all of it is read
SELECT no FROM taskyard_tasks INDEXED BY taskyard_ready
 WHERE state = 'queued' AND parked_on IS NULL AND no < ?1 AND no >= ?2 ORDER BY no DESC LIMIT ?3

-- :ready_in  the same in these lanes (?4) and of these routes (?5)
SELECT no FROM taskyard_tasks INDEXED BY taskyard_ready
 WHERE state = 'queued' AND parked_on IS NULL
   AND lane IN (SELECT value FROM json_each(?4)) AND route IN (SELECT value FROM json_each(?5))
   AND no < ?1 AND no >= ?2
 ORDER BY no DESC LIMIT ?3

-- :numbers  those of a list
SELECT json_group_array(no) FROM ({list})

-- :passing  those of a list that were created from ?7 on and before ?8, in lane ?9, of a route of ?10, in state
-- ?11, where that is said, ready ones alone if ?12; how many the list has, and the last of them
SELECT json_array(json_group_array(t.no) FILTER (
           WHERE (?7 IS NULL OR t.created_at >= ?7) AND (?8 IS NULL OR t.created_at < ?8)
             AND (?9 IS NULL OR t.lane = ?9) AND (?10 IS NULL OR t.route IN (SELECT value FROM json_each(?10)))
             AND (?11 IS NULL OR t.state = ?11) AND (?12 IS NULL OR t.parked_on IS NULL)),
           count(*), coalesce(min(t.no), 0))
  FROM ({list}) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.no

-- :placed  the same by lane and route, of a list that has them beside the numbers
SELECT json_array(json_group_array(no) FILTER (
           WHERE (?9 IS NULL OR lane = ?9) AND (?10 IS NULL OR route IN (SELECT value FROM json_each(?10)))),
           count(*), coalesce(min(no), 0))
  FROM ({list})

-- :lanes  their numbers, and that of the one named ?1
SELECT json_group_array(json_array(no, json(iif(name = ?1, 'true', 'false')))) FROM taskyard_lanes

-- :routes  those of the kind ?1; of all kinds
SELECT json_group_array(no) FROM taskyard_routes WHERE ?1 IS NULL OR kind = ?1

-- :moment  the first task from number ?1 on, and when it was created
SELECT json_array(no, created_at) FROM taskyard_tasks WHERE no >= ?1 ORDER BY no LIMIT 1

-- :last
SELECT coalesce(max(no), 0) FROM taskyard_tasks

-- :lines  tasks as a list shows them, in the order of these numbers (?1), with payloads up to ?2 bytes
SELECT json_group_array(json_object(
           'no', t.no, 'id', t.id, 'kind', r.kind, 'lane', l.name, 'priority', t.priority,
           'state', t.state, 'reason', t.reason, 'keys', json(coalesce(t.keys, '[]')),
           'group', coalesce(t.grp, ''), 'attempt', t.attempt, 'created_at', t.created_at,
           'run_at', t.run_at, 'deadline', t.deadline, 'started_at', t.started_at,
           'ended_at', t.ended_at,
           'node', coalesce(t.node, (SELECT i.node FROM taskyard_incarnations AS i WHERE i.lease = t.taken_by)),
           'asked', t.asked, 'parked_on', t.parked_on,
           'progress', json(g.progress),
           'payload', iif(octet_length(p.payload) <= ?2, CAST(p.payload AS TEXT), NULL),
           'error', json((SELECT iif(f.type IS NULL, NULL, json_object('type', f.type, 'message', f.message))
                            FROM taskyard_failures AS f
                           WHERE f.no = t.no AND t.state IN ('failed', 'pending')
                           ORDER BY f.attempt DESC LIMIT 1))))
  FROM jsonb_each(?1) AS v
       CROSS JOIN taskyard_tasks AS t ON t.no = v.value
       LEFT JOIN taskyard_payloads AS p ON p.no = t.no
       LEFT JOIN taskyard_progress AS g ON g.no = t.no
       CROSS JOIN taskyard_routes AS r ON r.no = t.route
       CROSS JOIN taskyard_lanes AS l ON l.no = t.lane
