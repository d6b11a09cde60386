-- :accepted  which of these are the accepted attempts, by their place in the list
SELECT json_group_array(v.key)
  FROM jsonb_each(?1) AS v CROSS JOIN taskyard_tasks AS t ON t.no = v.value ->> 0
 WHERE t.state = 'running' AND v.value ->> 1 = t.attempt AND v.value ->> 2 IN (0, t.lease)

-- :insert  a line that is here already was said again, after a lost answer
INSERT OR IGNORE INTO taskyard_logs (no, attempt, number, at, level, text)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM jsonb_each(?1)

-- :drop_lines  those of an attempt before a number
DELETE FROM taskyard_logs
 WHERE (no, attempt, number) IN (
           SELECT l.no, l.attempt, l.number
             FROM jsonb_each(?1) AS v
                  CROSS JOIN taskyard_logs AS l
                          ON l.no = v.value ->> 0 AND l.attempt = v.value ->> 1 AND l.number < v.value ->> 2)

-- :drop_attempts  those of a task before an attempt
DELETE FROM taskyard_logs
 WHERE (no, attempt, number) IN (
           SELECT l.no, l.attempt, l.number
             FROM jsonb_each(?1) AS v
                  CROSS JOIN taskyard_logs AS l ON l.no = v.value ->> 0 AND l.attempt < v.value ->> 1)

-- :number
SELECT no FROM taskyard_tasks WHERE id = ?1

-- :of_task  what was said behind (?2, ?3)
SELECT json_group_array(json_array(attempt, number, at, level, text))
  FROM (SELECT attempt, number, at, level, text FROM taskyard_logs
         WHERE no = ?1 AND (attempt, number) > (?2, ?3) ORDER BY attempt, number LIMIT ?4)

-- :export
SELECT json_group_array(json_array(no, json_array(attempt, number, at, level, text)))
  FROM (SELECT no, attempt, number, at, level, text FROM taskyard_logs
         WHERE (no, attempt, number) > (?1, ?2, ?3) ORDER BY no, attempt, number LIMIT ?4)
