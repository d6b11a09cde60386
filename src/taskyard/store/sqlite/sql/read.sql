-- :tasks  whole tasks, in the order of these numbers
SELECT json_group_array(json_object(
           'no', t.no, 'id', t.id, 'kind', r.kind, 'lane', l.name, 'priority', t.priority,
           'seq', t.seq, 'payload', CAST(p.payload AS TEXT), 'state', t.state, 'reason', t.reason,
           'keys', json(coalesce(t.keys, '[]')), 'group', coalesce(t.grp, ''), 'dedup', t.dedup,
           'requires', json(r.requires),
           'depends_on', json((SELECT json_group_array(d.id) FROM (
               SELECT id FROM taskyard_dependencies WHERE no = t.no ORDER BY place) AS d)),
           'on_failure', coalesce(t.on_failure, 'cancel'), 'waits_for', t.waits_for, 'attempt', t.attempt, 'charged', t.charged,
           'max_charged', t.max_charged, 'losses', t.losses, 'timeout', t.timeout / 1e6,
           'created_at', t.created_at, 'run_at', t.run_at, 'deadline', t.deadline,
           'started_at', t.started_at, 'ended_at', t.ended_at,
           'node', coalesce(t.node, (SELECT i.node FROM taskyard_incarnations AS i WHERE i.lease = t.taken_by)),
           'asked', t.asked,
           'parked_on', t.parked_on, 'progress', json(g.progress),
           'checkpoint', c.checkpoint, 'result', s.result,
           'failures', json((
               SELECT json_group_array(json_object(
                          'attempt', f.attempt, 'reason', f.reason, 'at', f.at,
                          'started_at', f.started_at, 'node', f.node,
                          'error', iif(f.type IS NULL, NULL, json_object(
                              'type', f.type, 'message', f.message, 'stack', f.stack))))
                 FROM (SELECT * FROM taskyard_failures WHERE no = t.no ORDER BY attempt) AS f)),
           'trace', o.trace))
  FROM jsonb_each(?1) AS v
       CROSS JOIN taskyard_tasks AS t ON t.no = v.value
       LEFT JOIN taskyard_payloads AS p ON p.no = t.no
       LEFT JOIN taskyard_results AS s ON s.no = t.no
       LEFT JOIN taskyard_progress AS g ON g.no = t.no
       LEFT JOIN taskyard_checkpoints AS c ON c.no = t.no
       LEFT JOIN taskyard_traces AS o ON o.no = t.no
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
  FROM jsonb_each(?1) AS v
       CROSS JOIN taskyard_tasks AS t ON t.id = v.value AND t.ended_at IS NOT NULL
       LEFT JOIN taskyard_results AS s ON s.no = t.no

-- :counts  from the indexes, not from the rows. Most tasks have completed: those are what is left of all,
-- which SQLite counts by the page.
SELECT json_object('queued', queued, 'pending', pending, 'running', running, 'paused', paused, 'failed', failed,
                   'cancelled', cancelled,
                   'completed', every - queued - pending - running - paused - failed - cancelled)
  FROM (SELECT (SELECT count(*) FROM taskyard_tasks) AS every,
               (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_ready
                 WHERE state = 'queued' AND parked_on IS NULL)
             + (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_parked_lane
                 WHERE parked_on IS NOT NULL) AS queued,
               (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_pending_lane
                 WHERE state = 'pending') AS pending,
               (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_running
                 WHERE state = 'running') AS running,
               (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_live_paused
                 WHERE state = 'paused') AS paused,
               (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_ended
                 WHERE ended_at IS NOT NULL AND state = 'failed') AS failed,
               (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_ended
                 WHERE ended_at IS NOT NULL AND state = 'cancelled') AS cancelled)

-- :yard_paused  now, at ?1
SELECT value <> 0 AND coalesce((SELECT value FROM taskyard_meta WHERE name = 'paused_until') > ?1, TRUE)
  FROM taskyard_meta WHERE name = 'paused'

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
       AND o.route = r.no AND (o.rank, o.seq) < (t.rank, t.seq)
     LIMIT ?2)

-- :head  the first of the tasks that are queued in a fifo lane, where none is parked
WITH RECURSIVE head (no) AS (
    SELECT (SELECT no FROM taskyard_tasks INDEXED BY taskyard_ready
             WHERE state = 'queued' AND parked_on IS NULL AND lane = ?1
             ORDER BY route, rank, seq LIMIT 1)
    UNION ALL
    SELECT (SELECT t.no FROM taskyard_tasks AS t INDEXED BY taskyard_ready
             WHERE t.state = 'queued' AND t.parked_on IS NULL AND t.lane = ?1 AND t.route > h.route
             ORDER BY t.route, t.rank, t.seq LIMIT 1)
      FROM head CROSS JOIN taskyard_tasks AS h ON h.no = head.no
)
SELECT t.id FROM head CROSS JOIN taskyard_tasks AS t ON t.no = head.no ORDER BY t.rank, t.seq LIMIT 1

-- :holders  who holds a key
SELECT json_group_array(t.id) FROM taskyard_held AS h JOIN taskyard_tasks AS t ON t.no = h.no
 WHERE h.key = ?1
