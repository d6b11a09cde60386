-- :numbers  take a run of ?1 numbers; answers the last one
UPDATE taskyard_meta SET value = value + ?1 WHERE name = 'seq' RETURNING value

-- :begin  the same, and whether there is a lane that is not as every other (particular in sql/order.sql)
UPDATE taskyard_meta SET value = value + ?1 WHERE name = 'seq'
RETURNING value, EXISTS (
    SELECT 1 FROM taskyard_lanes INDEXED BY taskyard_particular_lanes
     WHERE lane_order <> 'priority' OR ageing IS NOT NULL OR max_depth IS NOT NULL)

-- :insert  save these tasks; one whose id or dedup key is taken is left out
INSERT INTO taskyard_tasks (
    no, id, lane, route, priority, rank, seq, state, reason, max_charged, keys, parked_on, grp,
    dedup, dedup_until, dedup_held, timeout, deadline, created_at, run_at
)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 4, value ->> 0,
       value ->> 5, 'created', value ->> 6, value ->> 7, value ->> 8, value ->> 9,
       value ->> 10, value ->> 11, iif(value ->> 10 IS NULL, NULL, 1), value ->> 12, value ->> 13,
       ?2, value ->> 14
  FROM jsonb_each(?1) WHERE TRUE
    ON CONFLICT DO NOTHING

-- :insert_alike  save tasks that differ in nothing but their ids (?1: id by number) and payloads
-- Most calls are like this, and most of the others' time goes into taking columns out of JSON.
INSERT INTO taskyard_tasks (
    no, id, lane, route, priority, rank, seq, state, reason, max_charged, grp, timeout, deadline, created_at, run_at
)
SELECT key, value, ?3, ?4, ?5, ?5, key, ?6, 'created', ?7, ?8, ?9, ?10, ?2, ?11
  FROM json_each(?1) WHERE TRUE
    ON CONFLICT DO NOTHING

-- :payloads_alike  of those that were saved, by number
INSERT INTO taskyard_payloads (no, payload)
SELECT t.no, v.value FROM json_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.key

-- :insert_one  the same for one alone, as most callers enqueue: its number and id without JSON
INSERT INTO taskyard_tasks (
    no, id, lane, route, priority, rank, seq, state, reason, max_charged, grp, timeout, deadline, created_at, run_at
)
VALUES (?1, ?12, ?3, ?4, ?5, ?5, ?1, ?6, 'created', ?7, ?8, ?9, ?10, ?2, ?11)
    ON CONFLICT DO NOTHING

-- :payload_one
INSERT INTO taskyard_payloads (no, payload) VALUES (?1, ?2)

-- :insert_particular  the same for tasks of which there is more to say
INSERT INTO taskyard_tasks (
    no, id, lane, route, priority, seq, state, max_charged, keys, parked_on, grp, dedup, dedup_until,
    timeout, deadline, created_at, run_at, reason, dedup_held, ended_at, rank, rotation, waits_for, on_failure
)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 0, value ->> 5,
       value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12,
       value ->> 13, ?2, value ->> 14, value ->> 16, value ->> 17, value ->> 18, value ->> 19,
       value ->> 20, value ->> 21, value ->> 22
  FROM jsonb_each(?1) WHERE TRUE
    ON CONFLICT DO NOTHING

-- :payloads  the payloads of those that were saved
INSERT INTO taskyard_payloads (no, payload)
SELECT v.value ->> 0, v.value ->> 15
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value ->> 0

-- :traces  of those that were saved, by number
INSERT INTO taskyard_traces (no, trace)
SELECT t.no, v.value FROM json_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.key

-- :keys  remember which keys the saved tasks name
INSERT INTO taskyard_task_keys (key, no)
SELECT k.value, t.no
  FROM jsonb_each(?1) AS v
       CROSS JOIN taskyard_tasks AS t ON t.no = v.value
       CROSS JOIN json_each(t.keys) AS k

-- :clashes  which task stands in the way of each of these (number, id, dedup key) that was not saved
SELECT json_group_array(json_array(v.value ->> 0, coalesce(same.id, kept.id)))
  FROM jsonb_each(?1) AS v
       LEFT JOIN taskyard_tasks AS saved ON saved.no = v.value ->> 0
       LEFT JOIN taskyard_tasks AS same ON same.id = v.value ->> 1
       LEFT JOIN taskyard_tasks AS kept ON kept.dedup = v.value ->> 2 AND kept.dedup_held = 1
 WHERE saved.no IS NULL

-- :accepted  whether this attempt is the accepted one
SELECT 1 FROM taskyard_tasks
 WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)
