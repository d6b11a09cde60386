-- :set_capacity
UPDATE taskyard_lanes SET capacity = ?2 WHERE name = ?1

-- :set_max_depth
UPDATE taskyard_lanes SET max_depth = ?2 WHERE name = ?1

-- :set_order
UPDATE taskyard_lanes SET lane_order = ?2, ageing = ?3 WHERE name = ?1

-- :set_paused
UPDATE taskyard_lanes SET paused = ?2, paused_reason = ?3, paused_until = ?4 WHERE name = ?1

-- :list  all lanes, or the one named ?1, with what waits and runs in them
WITH runs (lane, n) AS MATERIALIZED (
    SELECT lane, count(*) FROM taskyard_tasks INDEXED BY taskyard_running WHERE state = 'running' GROUP BY lane
)
SELECT json_group_array(json_object(
           'name', l.name, 'capacity', l.capacity, 'max_depth', l.max_depth, 'rate', json(l.rate),
           'order', l.lane_order, 'ageing', l.ageing, 'paused', json(iif(l.paused, 'true', 'false')),
           'paused_reason', l.paused_reason, 'paused_until', l.paused_until,
           'running', coalesce((SELECT r.n FROM runs AS r WHERE r.lane = l.no), 0),
           'queued', (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_ready
                       WHERE state = 'queued' AND parked_on IS NULL AND lane = l.no)
                   + (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_parked_lane
                       WHERE parked_on IS NOT NULL AND lane = l.no),
           'pending', (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_pending_lane
                        WHERE state = 'pending' AND lane = l.no)))
  FROM (SELECT * FROM taskyard_lanes WHERE ?1 IS NULL OR name = ?1 ORDER BY name) AS l

-- :facts  what explain needs to know of the lane of a task, at ?2
SELECT json_object('name', name, 'capacity', capacity, 'order', lane_order, 'rate', json(rate),
                   'paused', json(iif(paused AND coalesce(paused_until > ?2, TRUE), 'true', 'false')),
                   'paused_reason', paused_reason, 'paused_until', paused_until,
                   'running', (SELECT count(*) FROM taskyard_tasks AS t INDEXED BY taskyard_running
                                WHERE t.state = 'running' AND t.lane = l.no),
                   'full_at', full_at)
  FROM taskyard_lanes AS l WHERE l.name = ?1
