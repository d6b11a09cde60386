-- :tasks  whole tasks, in the order of these numbers
SELECT json_group_array(json_object(
           'no', t.no, 'id', t.id, 'kind', r.kind, 'lane', l.name, 'priority', t.priority,
           'seq', t.seq, 'payload', CAST(p.payload AS TEXT), 'state', t.state, 'reason', t.reason,
           'keys', json(coalesce(t.keys, '[]')), 'group', coalesce(t.grp, ''), 'dedup', t.dedup,
           'requires', json(r.requires), 'attempt', t.attempt, 'charged', t.charged,
           'max_charged', t.max_charged, 'losses', t.losses, 'timeout', t.timeout / 1e6,
           'created_at', t.created_at, 'run_at', t.run_at, 'deadline', t.deadline,
           'started_at', t.started_at, 'ended_at', t.ended_at, 'node', t.node, 'asked', t.asked,
           'parked_on', t.parked_on, 'progress', json(g.progress), 'result', s.result,
           'failures', json((
               SELECT json_group_array(json_object(
                          'attempt', f.attempt, 'reason', f.reason, 'at', f.at,
                          'started_at', f.started_at, 'node', f.node,
                          'error', iif(f.type IS NULL, NULL, json_object(
                              'type', f.type, 'message', f.message, 'stack', f.stack))))
                 FROM (SELECT * FROM taskyard_failures WHERE no = t.no ORDER BY attempt) AS f))))
  FROM json_each(?1) AS v
       CROSS JOIN taskyard_tasks AS t ON t.no = v.value
       LEFT JOIN taskyard_payloads AS p ON p.no = t.no
       LEFT JOIN taskyard_results AS s ON s.no = t.no
       LEFT JOIN taskyard_progress AS g ON g.no = t.no
       CROSS JOIN taskyard_routes AS r ON r.no = t.route
       CROSS JOIN taskyard_lanes AS l ON l.no = t.lane

-- :number
SELECT no FROM taskyard_tasks WHERE id = ?1

-- :endings  those of these tasks that have ended
SELECT json_group_array(json_object(
           'id', t.id, 'state', t.state, 'result', s.result,
           'error', json((SELECT iif(f.type IS NULL, NULL, json_object(
                              'type', f.type, 'message', f.message, 'stack', f.stack))
                            FROM taskyard_failures AS f WHERE f.no = t.no AND t.state = 'failed'
                           ORDER BY f.attempt DESC LIMIT 1))))
  FROM json_each(?1) AS v
       CROSS JOIN taskyard_tasks AS t ON t.id = v.value AND t.ended_at IS NOT NULL
       LEFT JOIN taskyard_results AS s ON s.no = t.no

-- :counts  from the indexes, not from the rows
SELECT json_group_object(state, n) FROM (
    SELECT 'queued' AS state,
           (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_ready
             WHERE state = 'queued' AND parked_on IS NULL)
         + (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_parked
             WHERE parked_on IS NOT NULL) AS n
    UNION ALL SELECT 'pending', count(*) FROM taskyard_tasks INDEXED BY taskyard_due WHERE state = 'pending'
    UNION ALL SELECT 'running', count(*) FROM taskyard_tasks INDEXED BY taskyard_running_lease WHERE state = 'running'
    UNION ALL SELECT 'paused', count(*) FROM taskyard_tasks INDEXED BY taskyard_live_paused WHERE state = 'paused'
    UNION ALL SELECT state, count(*) FROM taskyard_tasks INDEXED BY taskyard_ended
               WHERE ended_at IS NOT NULL GROUP BY state)

-- :lanes
SELECT json_group_array(json_object(
           'name', l.name, 'capacity', l.capacity, 'paused', json(iif(l.paused, 'true', 'false')),
           'paused_reason', l.paused_reason, 'order', l.lane_order,
           'running', (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_running_lane
                        WHERE state = 'running' AND lane = l.no),
           'queued', coalesce(q.n, 0) + coalesce(w.n, 0), 'pending', coalesce(d.n, 0)))
  FROM (SELECT * FROM taskyard_lanes ORDER BY name) AS l
       LEFT JOIN (SELECT lane, count(*) AS n FROM taskyard_tasks INDEXED BY taskyard_ready
                   WHERE state = 'queued' AND parked_on IS NULL GROUP BY lane) AS q ON q.lane = l.no
       LEFT JOIN (SELECT lane, count(*) AS n FROM taskyard_tasks INDEXED BY taskyard_parked
                   WHERE parked_on IS NOT NULL GROUP BY lane) AS w ON w.lane = l.no
       LEFT JOIN (SELECT lane, count(*) AS n FROM taskyard_tasks INDEXED BY taskyard_due
                   WHERE state = 'pending' GROUP BY lane) AS d ON d.lane = l.no

-- :lane  one lane's figures, for explain
SELECT json_object('name', name, 'capacity', capacity, 'paused', json(iif(paused, 'true', 'false')),
                   'paused_reason', paused_reason,
                   'running', (SELECT count(*) FROM taskyard_tasks AS t
                                WHERE t.state = 'running' AND t.lane = l.no))
  FROM taskyard_lanes AS l WHERE l.name = ?1

-- :yard_paused
SELECT value FROM taskyard_meta WHERE name = 'paused'

-- :servers  the live nodes that serve a task's route, with their free slots
SELECT json_group_array(json_array(n.state, n.slots - (
           SELECT count(*) FROM taskyard_tasks AS r WHERE r.state = 'running' AND r.lease = n.lease)))
  FROM taskyard_tasks AS t
       CROSS JOIN taskyard_node_routes AS s ON s.route = t.route
       CROSS JOIN taskyard_nodes AS n ON n.lease = s.lease
 WHERE t.no = ?1 AND n.boot = ?2 AND n.until > ?3
   AND NOT EXISTS (SELECT 1 FROM taskyard_nodes AS o WHERE o.id = n.id AND o.lease > n.lease)

-- :before  how many ready tasks of its lane come before it, up to ?2; a range of the index a route
SELECT count(*) FROM (
    SELECT 1 FROM taskyard_tasks AS t
           CROSS JOIN taskyard_routes AS r
           CROSS JOIN taskyard_tasks AS o INDEXED BY taskyard_ready
     WHERE t.no = ?1 AND o.state = 'queued' AND o.parked_on IS NULL AND o.lane = t.lane
       AND o.route = r.no AND o.rota = t.rota AND (o.priority, o.seq) < (t.priority, t.seq)
     LIMIT ?2)

-- :holders  who holds a key
SELECT json_group_array(t.id) FROM taskyard_held AS h JOIN taskyard_tasks AS t ON t.no = h.no
 WHERE h.key = ?1

-- :filtered  the numbers of the tasks that match, newest first; conditions are put in by name
SELECT json_group_array(no) FROM (
    SELECT t.no FROM taskyard_tasks AS t WHERE TRUE {conditions} ORDER BY t.no DESC LIMIT {limit})

-- :by_state
AND t.state = ?

-- :by_kind
AND t.route IN (SELECT no FROM taskyard_routes WHERE kind = ?)

-- :by_lane
AND t.lane = (SELECT no FROM taskyard_lanes WHERE name = ?)

-- :by_key
AND t.no IN (SELECT no FROM taskyard_task_keys WHERE key = ?)

-- :by_ended
AND t.ended_at IS NOT NULL

-- :by_place
AND t.no < ?
