-- :particular  the lanes in which a place is not just the priority, or that take only so many
SELECT json_group_array(json_object('no', no, 'name', name, 'order', lane_order, 'ageing', ageing,
                                    'max_depth', max_depth))
  FROM taskyard_lanes INDEXED BY taskyard_particular_lanes
 WHERE lane_order <> 'priority' OR ageing IS NOT NULL OR max_depth IS NOT NULL

-- :present  the lowest rank of what is ready in a lane; a seek or two for each route
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
SELECT min(t.rank) FROM head CROSS JOIN taskyard_tasks AS t ON t.no = head.no AND typeof(t.rank) = 'integer'

-- :last  the highest rank of what is queued of a group, ready or parked
SELECT max(rank) FROM taskyard_tasks INDEXED BY taskyard_rounds
 WHERE state = 'queued' AND rotation IS NOT NULL AND lane = ?1 AND rotation = ?2 AND typeof(rank) = 'integer'

-- :waiting  what the places of these depend on
SELECT json_group_array(json_array(t.no, t.lane, t.priority, coalesce(t.grp, ''), json(coalesce(t.keys, '[]'))))
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value

-- :queue  let these wait for room, at these places
UPDATE taskyard_tasks AS t
   SET state = 'queued', reason = ?2, rank = v.rank, rotation = v.rotation, parked_on = v.parked_on
  FROM (SELECT value ->> 0 AS no, value ->> 1 AS rank, value ->> 2 AS rotation, value ->> 3 AS parked_on
          FROM jsonb_each(?1)) AS v
 WHERE t.no = v.no

-- :queued  what is queued in a lane, in its order
SELECT json_group_array(json_array(no, lane, priority, coalesce(grp, ''), json('[]')))
  FROM (SELECT no, lane, priority, grp FROM (
            SELECT no, lane, priority, grp, rank, seq FROM taskyard_tasks INDEXED BY taskyard_ready
             WHERE state = 'queued' AND parked_on IS NULL AND lane = ?1
            UNION ALL
            SELECT no, lane, priority, grp, rank, seq FROM taskyard_tasks INDEXED BY taskyard_parked_lane
             WHERE parked_on IS NOT NULL AND lane = ?1)
         ORDER BY rank, seq)

-- :running  what runs in a lane
SELECT json_group_array(json_array(no, lane, priority, coalesce(grp, ''), json('[]')))
  FROM taskyard_tasks INDEXED BY taskyard_running WHERE state = 'running' AND lane = ?1

-- :place  put these at other places, where they are looked at again
UPDATE taskyard_tasks AS t SET rank = v.rank, rotation = v.rotation, parked_on = NULL
  FROM (SELECT value ->> 0 AS no, value ->> 1 AS rank, value ->> 2 AS rotation FROM jsonb_each(?1)) AS v
 WHERE t.no = v.no

-- :groups  the first ?3 ready tasks of each of these groups and routes of a lane, in the group's own order
SELECT json_group_array(json((
           SELECT json_group_array(json_array(no, lane, priority, seq, json(coalesce(keys, '[]')),
                                              json(iif(reason = 'rescued', 'true', 'false')), deadline,
                                              rank, rotation, dedup_until))
             FROM (SELECT no, lane, priority, seq, keys, reason, deadline, rank, rotation, dedup_until
                     FROM taskyard_tasks INDEXED BY taskyard_groups
                    WHERE state = 'queued' AND rotation IS NOT NULL AND parked_on IS NULL
                      AND lane = ?1 AND rotation = v.value ->> 0 AND route = v.value ->> 1
                    ORDER BY priority, seq LIMIT ?3))))
  FROM jsonb_each(?2) AS v

-- :exchange  give these the ranks of others of their group
UPDATE taskyard_tasks AS t SET rank = v.value ->> 1
  FROM jsonb_each(?1) AS v WHERE t.no = v.value ->> 0
