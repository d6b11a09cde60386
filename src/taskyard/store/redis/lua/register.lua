-- register.lua: make a node ready under a new lease; an older incarnation may claim no more.
-- uses: full, nodes, founding, audit
-- args: id, kinds, capabilities, slots, lease in microseconds, the rest as text
-- Answers the lease.

local id, lease_us = args[1], args[5]
local lease = numbers(1, 'lease') + 1
local node = { id, args[2], args[3], args[4], lease_us, now, args[6] }

call('HSET', K.nodes, whole(lease), cmsgpack.pack(node))
write_lease(lease, { now + lease_us, now, 'ready', 0 })
put(K.node_ids, id .. '\0' .. as_text(lease))

local served = {}
local routes = call('HGETALL', K.routes)
for at = 1, #routes, 2 do
  local route = cmsgpack.unpack(routes[at + 1])
  if may_serve(node, route[1], route[2]) then served[#served + 1] = routes[at] end
end
call('HSET', K.node_routes, whole(lease), table.concat(served))

audit('system', 'register', 'node:' .. id, 'lease ' .. whole(lease))
commit()
return lease
