-- :begin  may this incarnation claim, and how many slots has it free? And the (lane, route) pairs with something
-- ready that it serves, their lanes' figures, and whether the first task of each is plain (see below)
-- Two index seeks a pair, however many tasks are ready: the scan jumps from head to head. Written
-- apart because SQLite seeks only the first column of (lane, route) > (…) and walks the rest.
WITH RECURSIVE head (no) AS (
    SELECT (SELECT no FROM taskyard_tasks INDEXED BY taskyard_ready
             WHERE state = 'queued' AND parked_on IS NULL
             ORDER BY lane, route, rank, seq LIMIT 1)
    UNION ALL
    SELECT coalesce(
               (SELECT t.no FROM taskyard_tasks AS t INDEXED BY taskyard_ready
                 WHERE t.state = 'queued' AND t.parked_on IS NULL AND t.lane = h.lane AND t.route > h.route
                 ORDER BY t.route, t.rank, t.seq LIMIT 1),
               (SELECT t.no FROM taskyard_tasks AS t INDEXED BY taskyard_ready
                 WHERE t.state = 'queued' AND t.parked_on IS NULL AND t.lane > h.lane
                 ORDER BY t.lane, t.route, t.rank, t.seq LIMIT 1))
      FROM head CROSS JOIN taskyard_tasks AS h ON h.no = head.no
), runs (lane, n) AS MATERIALIZED (
    -- Once for all lanes that have a capacity, and not at all if there is none.
    SELECT lane, count(*) FROM taskyard_tasks INDEXED BY taskyard_running WHERE state = 'running' GROUP BY lane
)
SELECT json_array(
           n.state, json(iif(n.boot = ?2 AND n.until > ?3, 'true', 'false')),
           json(iif(EXISTS (SELECT 1 FROM taskyard_nodes AS o WHERE o.id = n.id AND o.lease > n.lease),
                'true', 'false')),
           n.slots - (SELECT count(*) FROM taskyard_tasks INDEXED BY taskyard_running
                       WHERE state = 'running' AND lease = n.lease AND started_at IS NOT NULL),
           n.last_request,
           (SELECT value FROM taskyard_meta WHERE name = 'paused') <> 0
               AND coalesce((SELECT value FROM taskyard_meta WHERE name = 'paused_until') > ?4, TRUE)),
       (SELECT json_group_array(json_array(
                   t.lane, t.route,
                   iif(l.capacity IS NULL, NULL, l.capacity - coalesce((
                       SELECT r.n FROM runs AS r WHERE r.lane = t.lane), 0)),
                   l.lane_order, json(l.rate), l.full_at,
                   json(iif(coalesce(t.keys, t.deadline, t.rotation, t.dedup_until) IS NULL, 'true', 'false'))))
          FROM head CROSS JOIN taskyard_tasks AS t ON t.no = head.no
               CROSS JOIN taskyard_node_routes AS s ON s.lease = ?1 AND s.route = t.route
               CROSS JOIN taskyard_lanes AS l ON l.no = t.lane AND (NOT l.paused OR l.paused_until <= ?4))
  FROM taskyard_nodes AS n WHERE n.lease = ?1

-- :again  what an earlier request with this number took, and whether it was to start at once
SELECT json_group_array(json_array(no, json(iif(started_at IS NULL, 'false', 'true'))))
  FROM (SELECT no, started_at FROM taskyard_tasks
         WHERE state = 'running' AND lease = ?1 AND request = ?2 ORDER BY rank, seq)

-- :candidates  the first ?3 ready tasks of one lane and route
SELECT json_group_array(json_array(no, lane, priority, seq, json(coalesce(keys, '[]')),
                                   json(iif(reason = 'rescued', 'true', 'false')), deadline, rank, rotation,
                                   dedup_until))
  FROM (SELECT no, lane, priority, seq, keys, reason, deadline, rank, rotation, dedup_until
          FROM taskyard_tasks INDEXED BY taskyard_ready
         WHERE state = 'queued' AND parked_on IS NULL AND lane = ?1 AND route = ?2
         ORDER BY rank, seq LIMIT ?3)

-- :plain  the numbers of the same, if nothing more has to be asked of any of them, and if ?4 ranks and seqs;
-- NULL otherwise
SELECT iif(max(asks), NULL, json_array(json_group_array(no), json_group_array(rank) FILTER (WHERE ?4),
                                       json_group_array(seq) FILTER (WHERE ?4)))
  FROM (SELECT no, rank, seq, coalesce(keys, deadline, rotation, dedup_until) IS NOT NULL OR reason = 'rescued'
                   OR typeof(priority) <> 'integer' OR typeof(rank) <> 'integer' OR typeof(seq) <> 'integer' AS asks
          FROM taskyard_tasks INDEXED BY taskyard_ready
         WHERE state = 'queued' AND parked_on IS NULL AND lane = ?1 AND route = ?2
         ORDER BY rank, seq LIMIT ?3)

-- :whole  the numbers of the same, what the worker ?4 needs to run them, and whether that is all of it, if nothing
-- more has to be asked of any of them; NULL otherwise
-- What is large, or begun before, is left out with its payload: five hundred of the largest would not fit into one text.
SELECT iif(max(asks), NULL, json_group_array(t.no)), iif(max(asks), NULL, json_group_array(json_array(
           t.no, t.id, (SELECT kind FROM taskyard_routes WHERE no = ?2), (SELECT name FROM taskyard_lanes WHERE no = ?1),
           t.attempt + 1, t.charged, t.max_charged,
           iif(t.timeout % 1000000, t.timeout / 1e6, t.timeout / 1000000),
           iif(t.is_whole, CAST(t.payload AS TEXT), ''), ?4, t.losses,
           max(0, ?5 - t.run_at) / 1e6, NULL,
           iif((SELECT EXISTS (SELECT 1 FROM taskyard_traces)), json((
               SELECT json_array(o.trace, json(iif(t.run_at <= t.created_at, 'true', 'false')))
                 FROM taskyard_traces AS o WHERE o.no = t.no)), NULL)))),
       min(t.is_whole)
  FROM (SELECT f.*, p.payload, (octet_length(p.payload) <= 10000) IS TRUE AND NOT (
                   f.attempt > 0 AND EXISTS (SELECT 1 FROM taskyard_checkpoints AS c WHERE c.no = f.no)) AS is_whole
          FROM (SELECT no, id, attempt, charged, max_charged, timeout, losses, run_at, created_at,
                       coalesce(keys, deadline, rotation, dedup_until) IS NOT NULL OR reason = 'rescued'
                           OR typeof(priority) <> 'integer' OR typeof(rank) <> 'integer'
                           OR typeof(seq) <> 'integer' AS asks
                  FROM taskyard_tasks INDEXED BY taskyard_ready
                 WHERE state = 'queued' AND parked_on IS NULL AND lane = ?1 AND route = ?2
                 ORDER BY rank, seq LIMIT ?3) AS f
               LEFT JOIN taskyard_payloads AS p ON p.no = f.no) AS t

-- :heads  the first ready task of each route of one lane, whoever serves it; a seek or two for each
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
SELECT json_group_array(json_array(t.route, json_array(
           t.no, t.lane, t.priority, t.seq, json(coalesce(t.keys, '[]')),
           json(iif(t.reason = 'rescued', 'true', 'false')), t.deadline, t.rank, t.rotation,
           t.dedup_until)))
  FROM head CROSS JOIN taskyard_tasks AS t ON t.no = head.no

-- :take  start a new attempt of each of these, at ?4; NULL: they are claimed ahead and have not begun
-- OR FAIL, here and in finish.sql: SQLite keeps no copies of pages for undoing the statement alone. Whoever meets an
-- error undoes the whole call.
UPDATE OR FAIL taskyard_tasks
   SET state = 'running', reason = 'claimed', attempt = attempt + 1, lease = ?2, request = ?3,
       taken_by = ?2, node = NULL, started_at = ?4
 WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :take_span  the same for all from ?1 to ?2
UPDATE OR FAIL taskyard_tasks
   SET state = 'running', reason = 'claimed', attempt = attempt + 1, lease = ?3, request = ?4,
       taken_by = ?3, node = NULL, started_at = ?5
 WHERE no BETWEEN ?1 AND ?2

-- :free_dedup  of those of these that have one
UPDATE taskyard_tasks SET dedup_held = 0 WHERE no IN (SELECT value FROM jsonb_each(?1)) AND dedup_held = 1

-- :hold  take room in the keys of these tasks
INSERT INTO taskyard_held (key, no)
SELECT k.value, t.no
  FROM jsonb_each(?1) AS v
       CROSS JOIN taskyard_tasks AS t ON t.no = v.value
       CROSS JOIN json_each(t.keys) AS k

-- :park  let these wait for the key each one was blocked by
UPDATE taskyard_tasks SET parked_on = v.key
  FROM (SELECT value ->> 0 AS no, value ->> 1 AS key FROM jsonb_each(?1)) AS v
 WHERE taskyard_tasks.no = v.no

-- :load  what their worker needs to run these
SELECT json_group_array(json_array(
           t.no, t.id, r.kind, l.name, t.attempt, t.charged, t.max_charged,
           iif(t.timeout % 1000000, t.timeout / 1e6, t.timeout / 1000000),
           CAST(p.payload AS TEXT), t.lease, t.losses, max(0, coalesce(t.started_at, ?2) - t.run_at) / 1e6,
           iif(t.attempt > 1, (SELECT c.checkpoint FROM taskyard_checkpoints AS c WHERE c.no = t.no), NULL),
           iif((SELECT EXISTS (SELECT 1 FROM taskyard_traces)), json((
               SELECT json_array(o.trace, json(iif(t.run_at <= t.created_at, 'true', 'false')))
                 FROM taskyard_traces AS o WHERE o.no = t.no)), NULL)))
  FROM jsonb_each(?1) AS v
       CROSS JOIN taskyard_tasks AS t ON t.no = v.value
       CROSS JOIN taskyard_payloads AS p ON p.no = t.no
       CROSS JOIN taskyard_routes AS r ON r.no = t.route
       CROSS JOIN taskyard_lanes AS l ON l.no = t.lane

-- :attempts  of these tasks
SELECT json_group_array(json_array(t.no, t.attempt))
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value

-- :answered  remember the number of this request
UPDATE taskyard_nodes SET last_request = ?2 WHERE lease = ?1
