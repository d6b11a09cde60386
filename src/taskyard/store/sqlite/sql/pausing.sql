-- :ask  a body to pause; a wish that it stop altogether stays
UPDATE taskyard_tasks SET asked = coalesce(asked, 'pause') WHERE no = ?1 AND state = 'running'

-- :take_back  the wish that it pause
UPDATE taskyard_tasks SET asked = NULL WHERE no = ?1 AND state = 'running' AND asked = 'pause'

-- :pause  a task that waits
UPDATE taskyard_tasks SET state = 'paused', reason = ?2, parked_on = NULL WHERE no = ?1

-- :wait  let a paused task wait for its time, or for those it depends on
UPDATE taskyard_tasks SET state = 'pending', reason = ?2 WHERE no = ?1

-- :checkpoint  keep what the next attempt may go on from, if this is the accepted one
INSERT INTO taskyard_checkpoints (no, checkpoint)
SELECT no, ?4 FROM taskyard_tasks
 WHERE no = ?1 AND attempt = ?2 AND state = 'running' AND ?3 IN (0, lease)
    ON CONFLICT (no) DO UPDATE SET checkpoint = excluded.checkpoint

-- :pause_yard
UPDATE taskyard_meta SET value = iif(name = 'paused', ?1, ?2) WHERE name IN ('paused', 'paused_until')

-- :paused_until
SELECT value FROM taskyard_meta WHERE name = 'paused_until'

-- :yard_over  whether the yard was paused until now
SELECT value <= ?1 FROM taskyard_meta WHERE name = 'paused_until'

-- :lanes_over  the lanes that were paused until now
SELECT json_group_array(name)
  FROM (SELECT name FROM taskyard_lanes WHERE paused_until IS NOT NULL AND paused_until <= ?1 ORDER BY name)

-- :resume_lanes
UPDATE taskyard_lanes SET paused = 0, paused_reason = NULL, paused_until = NULL
 WHERE paused_until IS NOT NULL AND paused_until <= ?1
