-- :register
INSERT INTO taskyard_nodes (id, state, kinds, capabilities, labels, slots, process, lease_us, boot,
                            until, registered_at, seen_at)
VALUES (?1, 'ready', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10) RETURNING lease

-- :remember  whose incarnation this is, when its row has gone
INSERT INTO taskyard_incarnations (lease, node) VALUES (?1, ?2)

-- :offer_routes  the routes this node serves
INSERT INTO taskyard_node_routes (lease, route)
SELECT n.lease, r.no FROM taskyard_nodes AS n, taskyard_routes AS r
 WHERE n.lease = ?1
   AND EXISTS (SELECT 1 FROM json_each(n.kinds) AS k WHERE k.value = r.kind)
   AND NOT EXISTS (
       SELECT 1 FROM json_each(r.requires) AS q
        WHERE q.value NOT IN (SELECT c.value FROM json_each(n.capabilities) AS c))

-- :renew  one small write, however many tasks run
UPDATE taskyard_nodes
   SET until = ?2 + lease_us, boot = ?3, seen_at = ?4, usage = coalesce(?5, usage)
 WHERE lease = ?1

-- :known
SELECT 1 FROM taskyard_nodes WHERE lease = ?1

-- :asks  what runs under a lease and is asked to do something
SELECT json_group_array(json_array(no, attempt, asked)) FROM taskyard_tasks
 WHERE state = 'running' AND lease = ?1 AND asked IN ('cancel', 'pause') AND typeof(attempt) = 'integer'

-- :holds  everything that runs under a lease
SELECT json_group_array(json_array(no, attempt)) FROM taskyard_tasks
 WHERE state = 'running' AND lease = ?1 AND typeof(attempt) = 'integer'

-- :set_state
UPDATE taskyard_nodes SET state = ?2 WHERE lease = ?1

-- :list
SELECT json_group_array(json_object(
           'id', id, 'lease', lease, 'state', state, 'kinds', json(kinds), 'slots', slots,
           'running', (SELECT count(*) FROM taskyard_tasks AS t
                        WHERE t.state = 'running' AND t.lease = n.lease),
           'capabilities', json(capabilities), 'labels', json(labels), 'process', json(process),
           'registered_at', registered_at, 'seen_at', seen_at, 'lease_seconds', lease_us / 1e6,
           'usage', json(usage), 'lease_left', iif(boot = ?1, (until - ?2) / 1e6, -1.0)))
  FROM taskyard_nodes AS n
