-- :tally
INSERT INTO taskyard_figures (hour, kind, lane, what, n, bucket)
SELECT ?2, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM jsonb_each(?1) WHERE TRUE
    ON CONFLICT (hour, kind, lane, what, bucket) DO UPDATE SET n = n + excluded.n

-- :tallied
SELECT json_group_array(json_array(kind, lane, what, n, bucket))
  FROM (SELECT kind, lane, what, sum(n) AS n, bucket FROM taskyard_figures WHERE hour >= ?1
         GROUP BY kind, lane, what, bucket)

-- :forget
DELETE FROM taskyard_figures WHERE hour <= ?1
