-- :now
SELECT taskyard.moment($1)::text

-- :get  one task by its id
SELECT taskyard.tasks_json(ARRAY(SELECT no FROM taskyard.tasks WHERE id = $1))

-- :find  tasks by filter, newest first
SELECT taskyard.find($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- :page  the same without what may be large
SELECT taskyard.page($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- :endings  those of these tasks that have ended
SELECT taskyard.endings($1)

-- :counts  those that have completed are counted as they do
SELECT json_build_object(
           'queued', (SELECT count(*) FROM taskyard.ready) + (SELECT count(*) FROM taskyard.parked),
           'pending', (SELECT count(*) FROM taskyard.pending),
           'paused', (SELECT count(*) FROM taskyard.paused),
           'running', (SELECT count(*) FROM taskyard.running),
           'completed', (SELECT coalesce(sum(c.tasks), 0) FROM taskyard.completed AS c),
           'failed', count(*) FILTER (WHERE d.state = 'failed'),
           'cancelled', count(*) FILTER (WHERE d.state = 'cancelled'))
  FROM taskyard.done AS d WHERE d.state <> 'completed'

-- :lanes
SELECT coalesce(json_agg(json_build_object(
           'name', l.name, 'capacity', l.capacity, 'paused', l.paused, 'paused_reason', l.paused_reason,
           'paused_until', l.paused_until, 'max_depth', l.max_depth, 'rate', l.rate::json,
           'order', l.lane_order, 'ageing', l.ageing / 1e6::double precision, 'running', coalesce(r.n, 0),
           'queued', coalesce(q.n, 0) + coalesce(w.n, 0), 'pending', coalesce(d.n, 0)) ORDER BY l.name), '[]')
  FROM taskyard.lanes AS l
       LEFT JOIN (SELECT lane, count(*) AS n FROM taskyard.running GROUP BY lane) AS r ON r.lane = l.no
       LEFT JOIN (SELECT lane, count(*) AS n FROM taskyard.ready GROUP BY lane) AS q ON q.lane = l.no
       LEFT JOIN (SELECT lane, count(*) AS n FROM taskyard.parked GROUP BY lane) AS w ON w.lane = l.no
       LEFT JOIN (SELECT lane, count(*) AS n FROM taskyard.pending GROUP BY lane) AS d ON d.lane = l.no

-- :keys  the keys that are held or waited for
SELECT coalesce(json_agg(json_build_object(
           'name', k.key, 'limit', taskyard.key_limit(k.key), 'waiting', k.waiting,
           'holders', (SELECT coalesce(json_agg(t.id ORDER BY t.no), '[]')
                         FROM taskyard.held AS h JOIN taskyard.tasks AS t ON t.no = h.no
                        WHERE h.key = k.key))
           ORDER BY k.waiting DESC, k.key), '[]')
  FROM (SELECT n.key, (SELECT count(*) FROM taskyard.parked AS w WHERE w.key = n.key) AS waiting
          FROM (SELECT DISTINCT key FROM taskyard.held
                 UNION SELECT key FROM taskyard.waited_keys()) AS n
         ORDER BY waiting DESC, n.key LIMIT $1) AS k

-- :yard_paused  the pause, if it is
SELECT coalesce(json_agg(json_build_object('until', nullif(m.value, '')::bigint)), '[]')
  FROM taskyard.meta AS m WHERE m.name = 'paused_until' AND taskyard.yard_paused(taskyard.moment($1))

-- :key_rules
SELECT coalesce(json_agg(json_build_object('pattern', pattern, 'limit', key_limit, 'rate', rate::json)
                         ORDER BY pattern), '[]')
  FROM taskyard.key_rules

-- :nodes
SELECT coalesce(json_agg(json_build_object(
           'id', n.id, 'lease', n.lease, 'state', n.state, 'kinds', n.kinds, 'slots', n.slots,
           'running', (SELECT count(*) FROM taskyard.running AS r WHERE r.lease = n.lease),
           'capabilities', n.capabilities, 'labels', n.labels::json, 'process', n.process::json,
           'usage', n.usage::json,
           'registered_at', n.registered_at, 'seen_at', n.seen_at,
           'lease_seconds', n.lease_us / 1e6::double precision,
           'lease_left', (n.until - taskyard.moment($1)) / 1e6::double precision) ORDER BY n.lease), '[]')
  FROM taskyard.nodes AS n

-- :holds  everything that runs under a lease
SELECT coalesce(json_agg(json_build_array(r.no, r.attempt, r.lease)), '[]')
  FROM taskyard.running AS r WHERE r.lease = $1

-- :audit
SELECT coalesce(json_agg(json_build_object(
           'no', a.no, 'at', a.at, 'actor', a.actor, 'action', a.action, 'subject', a.subject,
           'detail', a.detail) ORDER BY a.no DESC), '[]')
  FROM (SELECT * FROM taskyard.audit WHERE $1::bigint IS NULL OR no < $1 ORDER BY no DESC LIMIT $2) AS a

-- :facts  what explain needs to know of a task that waits
SELECT taskyard.facts($1, $2, $3)

-- :crons  all periodic tasks, by name
SELECT coalesce(json_agg(json_build_array(c.cron, c.next_at, c.last_at) ORDER BY c.name), '[]')
  FROM taskyard.crons AS c

-- :cron  one of them as it is kept
SELECT coalesce(json_agg(c.cron), '[]') FROM taskyard.crons AS c WHERE c.name = $1

-- :tallied  what was added since an hour
SELECT coalesce(json_agg(json_build_object(
           'kind', f.kind, 'lane', f.lane, 'what', f.what, 'bucket', f.bucket, 'n', f.n)
           ORDER BY f.kind, f.lane, f.what, f.bucket), '[]')
  FROM (SELECT kind, lane, what, bucket, sum(n) AS n FROM taskyard.figures WHERE hour >= $1
         GROUP BY kind, lane, what, bucket) AS f
