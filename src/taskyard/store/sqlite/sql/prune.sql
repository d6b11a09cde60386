-- :look  the oldest tasks in state ?1 behind (?3, ?4) that ended until ?2, and whether each has been
-- kept long enough at ?5: for ?8 unless its lane (?7) or its kind (?6) says otherwise. One that a task
-- depends on stays as long as that has not ended. What goes is decided here alone.
SELECT json_group_array(json_array(no, ended_at, json(iif(old, 'true', 'false')))) FROM (
    SELECT t.no, t.ended_at, t.ended_at <= ?5 - coalesce(
               (SELECT value FROM jsonb_each(?6) WHERE key = r.kind),
               (SELECT value FROM jsonb_each(?7) WHERE key = l.name), ?8)
           AND (t.awaited IS NULL OR NOT EXISTS (
                   SELECT 1 FROM taskyard_dependencies AS d INDEXED BY taskyard_dependents
                          CROSS JOIN taskyard_tasks AS o ON o.no = d.no AND o.ended_at IS NULL
                    WHERE d.id = t.id)) AS old
      FROM taskyard_tasks AS t INDEXED BY taskyard_ended_at
           CROSS JOIN taskyard_routes AS r ON r.no = t.route
           CROSS JOIN taskyard_lanes AS l ON l.no = t.lane
     WHERE t.state = ?1 AND t.ended_at IS NOT NULL AND t.ended_at <= ?2 AND (t.ended_at, t.no) > (?3, ?4)
     ORDER BY t.ended_at, t.no LIMIT ?9)

-- :drop_keys  before the tasks, which name them
DELETE FROM taskyard_task_keys
 WHERE (key, no) IN (SELECT k.value, t.no
                       FROM jsonb_each(?1) AS v
                            CROSS JOIN taskyard_tasks AS t ON t.no = v.value
                            CROSS JOIN json_each(iif(json_valid(t.keys), t.keys, '[]')) AS k)

-- :drop_traces
DELETE FROM taskyard_traces WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :drop_payloads
DELETE FROM taskyard_payloads WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :drop_results
DELETE FROM taskyard_results WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :drop_progress
DELETE FROM taskyard_progress WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :drop_failures
DELETE FROM taskyard_failures WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :drop_dependencies  what these depended on
DELETE FROM taskyard_dependencies WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :drop_checkpoints
DELETE FROM taskyard_checkpoints WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :drop_logs  ?2 lines at most
DELETE FROM taskyard_logs
 WHERE (no, attempt, number) IN (
           SELECT l.no, l.attempt, l.number
             FROM jsonb_each(?1) AS v CROSS JOIN taskyard_logs AS l ON l.no = v.value LIMIT ?2)

-- :drop_tasks
DELETE FROM taskyard_tasks WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :drop_incarnations  those that ended before all that is left, of which none can be theirs
DELETE FROM taskyard_incarnations
 WHERE ended_at < coalesce((SELECT min(oldest) FROM (
           SELECT min(ended_at) AS oldest FROM taskyard_tasks WHERE state = 'completed' AND ended_at IS NOT NULL
           UNION ALL SELECT min(ended_at) FROM taskyard_tasks WHERE state = 'failed' AND ended_at IS NOT NULL
           UNION ALL SELECT min(ended_at) FROM taskyard_tasks WHERE state = 'cancelled' AND ended_at IS NOT NULL)),
       ?1)

-- :drop_line
DELETE FROM taskyard_audit WHERE no = ?1

-- :newest_line
SELECT max(no) FROM taskyard_audit

-- :drop_audit  those of the first ?2 lines that are of a time until ?1
DELETE FROM taskyard_audit
 WHERE no IN (SELECT no FROM (SELECT no, at FROM taskyard_audit ORDER BY no LIMIT ?2) WHERE at <= ?1)
