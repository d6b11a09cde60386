-- :find_lane
SELECT no FROM taskyard_lanes WHERE name = ?1

-- :make_lane
INSERT INTO taskyard_lanes (name) VALUES (?1) RETURNING no

-- :find_route
SELECT no FROM taskyard_routes WHERE kind = ?1 AND requires = ?2

-- :make_route
INSERT INTO taskyard_routes (kind, requires) VALUES (?1, ?2) RETURNING no

-- :offer_route  let the nodes that are here serve a route that is new
INSERT INTO taskyard_node_routes (lease, route)
SELECT n.lease, r.no FROM taskyard_routes AS r, taskyard_nodes AS n
 WHERE r.no = ?1
   AND EXISTS (SELECT 1 FROM json_each(n.kinds) AS k WHERE k.value = r.kind)
   AND NOT EXISTS (
       SELECT 1 FROM json_each(r.requires) AS q
        WHERE q.value NOT IN (SELECT c.value FROM json_each(n.capabilities) AS c))
