-- :task_logs  what attempts of this task have said behind ($2, $3); NULL if there is no such task
SELECT (SELECT coalesce(json_agg(json_build_array(l.attempt, l.number, l.at, l.level, l.text)
                                 ORDER BY l.attempt, l.number), '[]')
          FROM (SELECT g.attempt, g.number, g.at, g.level, g.text FROM taskyard.logs AS g
                 WHERE g.no = t.no AND (g.attempt, g.number) > ($2::integer, $3::integer)
                 ORDER BY g.attempt, g.number LIMIT $4) AS l)
  FROM taskyard.tasks AS t WHERE t.id = $1

-- :export_logs  what all attempts have said behind ($1, $2, $3)
SELECT coalesce(json_agg(json_build_array(l.no, json_build_array(l.attempt, l.number, l.at, l.level, l.text))
                         ORDER BY l.no, l.attempt, l.number), '[]')
  FROM (SELECT g.no, g.attempt, g.number, g.at, g.level, g.text FROM taskyard.logs AS g
         WHERE (g.no, g.attempt, g.number) > ($1::bigint, $2::integer, $3::integer)
         ORDER BY g.no, g.attempt, g.number LIMIT $4) AS l
