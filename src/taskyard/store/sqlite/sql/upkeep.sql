-- :due  pending tasks whose time has come, in the order of their times
SELECT json_group_array(no)
  FROM (SELECT no FROM taskyard_tasks INDEXED BY taskyard_due
         WHERE state = 'pending' AND waits_for = 0 AND run_at <= ?1 ORDER BY run_at, no LIMIT ?2)

-- :next_due  when the next task is due, the next rate opens, the next pause is over
SELECT min(moment) FROM (
    SELECT min(run_at) AS moment FROM taskyard_tasks
     WHERE state = 'pending' AND waits_for = 0 AND typeof(run_at) = 'integer'
    UNION ALL SELECT min(opens_at) FROM taskyard_buckets WHERE opens_at IS NOT NULL
    UNION ALL SELECT min(opens_at) FROM taskyard_lanes WHERE opens_at IS NOT NULL
    UNION ALL SELECT min(paused_until) FROM taskyard_lanes WHERE paused_until IS NOT NULL
    UNION ALL SELECT value FROM taskyard_meta WHERE name = 'paused_until')

-- :expired  waiting tasks whose deadline has passed
SELECT json_group_array(json_array(no, json(coalesce(keys, '[]'))))
  FROM (SELECT no, keys FROM taskyard_tasks INDEXED BY taskyard_deadlines
         WHERE deadline IS NOT NULL AND state IN ('pending', 'queued') AND deadline <= ?1 LIMIT ?2)

-- :any_late  whether there is one
SELECT 1 FROM taskyard_tasks INDEXED BY taskyard_deadlines
 WHERE deadline IS NOT NULL AND state IN ('pending', 'queued') AND deadline <= ?1 LIMIT 1

-- :expire
UPDATE taskyard_tasks
   SET state = 'failed', reason = 'expired', ended_at = ?2, parked_on = NULL,
       dedup_held = iif(dedup_held IS NULL, NULL, 0)
 WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :ids  of these, and whether another depends on it
SELECT json_group_array(json_array(t.id, json(iif(t.awaited, 'true', 'false'))))
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value

-- :ended_leases  nodes whose lease has ended, or that are proven dead
-- The file is on one machine: a lease of an earlier boot is proof enough.
SELECT json_group_array(json_array(lease, id)) FROM taskyard_nodes
 WHERE boot <> ?1 OR (?4 AND until <= ?2) OR lease IN (SELECT value FROM jsonb_each(?3))

-- :runs  what runs under a lease
SELECT json_group_array(json_object(
           'no', no, 'id', id, 'attempt', attempt, 'charged', charged, 'max_charged', max_charged,
           'losses', losses, 'started', json(iif(started_at IS NULL, 'false', 'true')), 'asked', asked))
  FROM taskyard_tasks WHERE state = 'running' AND lease = ?1

-- :drop_node
DELETE FROM taskyard_nodes WHERE lease = ?1

-- :end_incarnation  not before any of its tasks, also where the clock was set back meanwhile
UPDATE taskyard_incarnations
   SET ended_at = max(?2, (SELECT coalesce(max(latest), 0) FROM (
           SELECT max(ended_at) AS latest FROM taskyard_tasks WHERE state = 'completed' AND ended_at IS NOT NULL
           UNION ALL SELECT max(ended_at) FROM taskyard_tasks WHERE state = 'failed' AND ended_at IS NOT NULL
           UNION ALL SELECT max(ended_at) FROM taskyard_tasks WHERE state = 'cancelled' AND ended_at IS NOT NULL)))
 WHERE lease = ?1

-- :drop_node_routes
DELETE FROM taskyard_node_routes WHERE lease = ?1

-- :take_duty  become or stay the one who does it
INSERT INTO taskyard_duties (name, holder, boot, until) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, boot = excluded.boot, until = excluded.until
 WHERE holder = excluded.holder OR boot <> excluded.boot OR until <= ?5

-- :drop_duties  let others do what this one did
DELETE FROM taskyard_duties WHERE holder = ?1

-- :duty_holder
SELECT holder FROM taskyard_duties WHERE name = ?1 AND boot = ?2 AND until > ?3

-- :audit
INSERT INTO taskyard_audit (at, actor, action, subject, detail)
SELECT ?1, ?2, value ->> 0, value ->> 1, value ->> 2 FROM jsonb_each(?3)

-- :read_audit
SELECT json_group_array(json_array(no, at, actor, action, subject, detail))
  FROM (SELECT * FROM taskyard_audit WHERE ?1 IS NULL OR no < ?1 ORDER BY no DESC LIMIT ?2)
