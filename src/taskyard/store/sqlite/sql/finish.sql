-- :accepted  which of these (no, attempt, lease) are the accepted attempts: the fence; lease 0 fits all
SELECT json_group_array(json_array(t.no, t.attempt, t.lease, json(t.keys), t.asked, t.awaited, t.dedup_held))
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value ->> 0
 WHERE t.state = 'running' AND t.attempt = v.value ->> 1 AND v.value ->> 2 IN (0, t.lease)

-- :all_accepted  how many of these are the accepted attempts under one fence (?2 attempt, ?3 lease), and
-- which of them hold keys, are asked to stop, or have others waiting for their end
SELECT json_array(count(*), json_group_array(
           json_array(t.no, t.attempt, t.lease, json(t.keys), t.asked, t.awaited, t.dedup_held))
           FILTER (WHERE coalesce(t.keys, t.asked, t.awaited, t.dedup_held) IS NOT NULL))
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value
 WHERE t.state = 'running' AND t.attempt = ?2 AND ?3 IN (0, t.lease)

-- :log  remember the attempts that did not end well
INSERT OR REPLACE INTO taskyard_failures (no, attempt, reason, at, started_at, node, type, message, stack)
SELECT t.no, t.attempt, v.value ->> 1, ?2, t.started_at,
       coalesce(t.node, (SELECT i.node FROM taskyard_incarnations AS i WHERE i.lease = t.taken_by)),
       v.value ->> 2, v.value ->> 3, v.value ->> 4
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value ->> 0

-- :complete  end these as completed
UPDATE OR FAIL taskyard_tasks
   SET state = 'completed', reason = 'finished', charged = charged + 1, ended_at = ?2,
       lease = NULL, request = NULL, asked = NULL
 WHERE no IN (SELECT value FROM jsonb_each(?1))

-- :complete_at_once  the same for those of them that are the accepted attempts under one fence (?3 attempt, ?4 lease)
-- and of which there is nothing more to say
UPDATE OR FAIL taskyard_tasks
   SET state = 'completed', reason = 'finished', charged = charged + 1, ended_at = ?2,
       lease = NULL, request = NULL, asked = NULL
 WHERE no IN (SELECT value FROM jsonb_each(?1))
   AND state = 'running' AND attempt = ?3 AND ?4 IN (0, lease)
   AND coalesce(keys, awaited, dedup_held) IS NULL

-- :complete_span  the same for all from ?1 to ?2, at ?3, under one fence (?4 attempt, ?5 lease)
UPDATE OR FAIL taskyard_tasks
   SET state = 'completed', reason = 'finished', charged = charged + 1, ended_at = ?3,
       lease = NULL, request = NULL, asked = NULL
 WHERE no BETWEEN ?1 AND ?2
   AND state = 'running' AND attempt = ?4 AND ?5 IN (0, lease)
   AND coalesce(keys, awaited, dedup_held) IS NULL

-- :settle  give these the state, reason and place their verdicts say
-- One that has not ended may wait for longer than its incarnation is remembered: it gets the name of its node.
UPDATE taskyard_tasks AS t
   SET state = v.state, reason = v.reason, charged = t.charged + v.charge, losses = t.losses + v.losses,
       run_at = coalesce(v.run_at, t.run_at), seq = coalesce(v.seq, t.seq),
       ended_at = v.ended_at, lease = NULL, request = NULL, asked = NULL,
       started_at = iif(v.ended_at IS NULL, NULL, t.started_at),
       node = iif(v.ended_at IS NULL, coalesce(t.node, (
                      SELECT i.node FROM taskyard_incarnations AS i WHERE i.lease = t.taken_by)), t.node),
       taken_by = iif(v.ended_at IS NULL, NULL, t.taken_by),
       dedup_held = iif(t.dedup_held = 1 AND v.ended_at IS NULL, 1, iif(t.dedup_held IS NULL, NULL, 0))
  FROM (SELECT value ->> 0 AS no, value ->> 1 AS state, value ->> 2 AS reason, value ->> 3 AS charge,
               value ->> 4 AS losses, value ->> 5 AS run_at, value ->> 6 AS seq, value ->> 7 AS ended_at
          FROM jsonb_each(?1)) AS v
 WHERE t.no = v.no

-- :results  by number
INSERT OR REPLACE INTO taskyard_results (no, result) SELECT key, value FROM json_each(?1)

-- :give_back  free the keys these tasks held
DELETE FROM taskyard_held
 WHERE (key, no) IN (SELECT value ->> 0, value ->> 1 FROM jsonb_each(?1))

-- :mark_started  attempts claimed ahead that have started, if they are the accepted ones
UPDATE taskyard_tasks AS t SET started_at = ?2
  FROM jsonb_each(?1) AS v
 WHERE t.no = v.value ->> 0 AND t.state = 'running' AND t.started_at IS NULL
   AND v.value ->> 1 = t.attempt AND v.value ->> 2 IN (0, t.lease)

-- :report  keep how far an attempt has come, if it is the accepted one
INSERT INTO taskyard_progress (no, progress)
SELECT no, ?4 FROM taskyard_tasks
 WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)
    ON CONFLICT (no) DO UPDATE SET progress = excluded.progress
