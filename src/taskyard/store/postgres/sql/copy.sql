-- :export  whole tasks, newest first, with what is beside them
WITH page AS MATERIALIZED (
    SELECT t.no, t.dedup_until,
           EXISTS (SELECT 1 FROM taskyard.dedup AS d WHERE d.key = t.dedup AND d.no = t.no) AS kept,
           taskyard.rank_of(t) AS rank,
           ARRAY(SELECT d.on_id FROM taskyard.dependencies AS d
                  WHERE d.no = t.no AND NOT d.met ORDER BY d.place) AS unmet
      FROM taskyard.tasks AS t WHERE $1::bigint IS NULL OR t.no < $1
     ORDER BY t.no DESC LIMIT $2
)
SELECT json_build_object(
           'tasks', taskyard.tasks_json(ARRAY(SELECT page.no FROM page ORDER BY page.no DESC)),
           'beside', (SELECT coalesce(json_agg(json_build_array(page.dedup_until, page.kept, page.rank, page.unmet)
                                               ORDER BY page.no DESC), '[]') FROM page))

-- :buckets  that are not full now
SELECT coalesce(json_agg(json_build_object(
           'name', coalesce(l.name, b.key), 'full_at', b.full_at, 'of_lane', b.lane <> 0)), '[]')
  FROM (SELECT DISTINCT ON (a.lane, a.key) a.lane, a.key, a.full_at
          FROM taskyard.buckets AS a ORDER BY a.lane, a.key, a.entry DESC) AS b
       LEFT JOIN taskyard.lanes AS l ON l.no = b.lane
 WHERE b.full_at > taskyard.moment($1)
