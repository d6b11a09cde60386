-- :more  how long these keep their dedup key, whether they do now, their rank, and whose end they wait for
SELECT json_group_array(json_array(
           t.no, json_array(
               t.dedup_until, json(iif(t.dedup_held = 1, 'true', 'false')), t.rank,
               json((SELECT json_group_array(d.id) FROM (
                   SELECT id FROM taskyard_dependencies WHERE no = t.no AND unmet = 1 ORDER BY place) AS d)))))
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value

-- :tasks  take these over as they are; what is here already stays
INSERT INTO taskyard_tasks (
    no, id, lane, route, priority, seq, state, reason, attempt, charged, max_charged, losses, keys, grp,
    dedup, dedup_until, dedup_held, timeout, deadline, created_at, run_at, started_at, ended_at, node, rank,
    waits_for, on_failure, rotation
)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14,
       value ->> 15, value ->> 16, value ->> 17, value ->> 18, value ->> 19, value ->> 20, value ->> 21,
       value ->> 22, value ->> 23, value ->> 24, value ->> 25, value ->> 26,
       (SELECT coalesce(v.value ->> 13, '') FROM taskyard_lanes AS l
         WHERE l.no = v.value ->> 2 AND l.lane_order = 'fair')
  FROM jsonb_each(?1) AS v WHERE TRUE
    ON CONFLICT DO NOTHING

-- :payloads
INSERT OR IGNORE INTO taskyard_payloads (no, payload) SELECT value ->> 0, value ->> 1 FROM jsonb_each(?1)

-- :results
INSERT OR IGNORE INTO taskyard_results (no, result) SELECT value ->> 0, value ->> 1 FROM jsonb_each(?1)

-- :progress
INSERT OR IGNORE INTO taskyard_progress (no, progress) SELECT value ->> 0, value ->> 1 FROM jsonb_each(?1)

-- :checkpoints
INSERT OR IGNORE INTO taskyard_checkpoints (no, checkpoint) SELECT value ->> 0, value ->> 1 FROM jsonb_each(?1)

-- :traces
INSERT OR IGNORE INTO taskyard_traces (no, trace) SELECT value ->> 0, value ->> 1 FROM jsonb_each(?1)

-- :dependencies
INSERT OR IGNORE INTO taskyard_dependencies (no, place, id, unmet)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM jsonb_each(?1)

-- :failures
INSERT OR IGNORE INTO taskyard_failures (no, attempt, reason, at, started_at, node, type, message, stack)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
       value ->> 8
  FROM jsonb_each(?1)

-- :keys
INSERT OR IGNORE INTO taskyard_task_keys (key, no) SELECT value ->> 1, value ->> 0 FROM jsonb_each(?1)

-- :numbers  what comes next comes behind them
UPDATE taskyard_meta SET value = max(value, ?1) WHERE name = 'seq'

-- :lanes
UPDATE taskyard_lanes AS l
   SET capacity = v.value ->> 1, paused = v.value ->> 2, paused_reason = v.value ->> 3,
       paused_until = v.value ->> 4, lane_order = v.value ->> 5, ageing = v.value ->> 6,
       max_depth = v.value ->> 7, rate = v.value ->> 8
  FROM jsonb_each(?1) AS v WHERE l.name = v.value ->> 0

-- :buckets  that are not full at ?1
SELECT json_group_array(json_object('name', name, 'full_at', full_at, 'of_lane', json(of_lane))) FROM (
    SELECT key AS name, full_at, 'false' AS of_lane FROM taskyard_buckets WHERE full_at > ?1
    UNION ALL SELECT name, full_at, 'true' FROM taskyard_lanes WHERE full_at > ?1)

-- :rules
INSERT OR REPLACE INTO taskyard_key_rules (pattern, key_limit, rate)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM jsonb_each(?1)

-- :crons
INSERT OR REPLACE INTO taskyard_crons (name, cron, next_at, last_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM jsonb_each(?1)

-- :audit  oldest first; a number that is taken is one that was copied before
INSERT OR IGNORE INTO taskyard_audit (no, at, actor, action, subject, detail)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM jsonb_each(?1)
