-- names: numbers of lanes and routes. Both exist from the first time they are named.
-- uses: base
-- KEYS meta         HASH  counters
-- KEYS lanes        HASH  lane -> packed [name, capacity, paused, reason, order]
-- KEYS lane_names   HASH  name -> lane
-- KEYS routes       HASH  route -> packed [kind, requires]
-- KEYS route_names  HASH  kind \0 requires -> route
-- KEYS nodes        HASH  lease -> packed [id, kinds, capabilities, slots, lease_us, registered_at, rest]
-- KEYS node_routes  HASH  lease -> the routes it serves, eight digits each

local LANE_NAME, CAPACITY, PAUSED, PAUSED_REASON = 1, 2, 3, 4
local NODE_ID, KINDS, CAPABILITIES, SLOTS, LEASE_US, REGISTERED_AT = 1, 2, 3, 4, 5, 6

local known_lanes, known_routes = {}, {}

local function lane_number(name)
  local lane = known_lanes[name] or call('HGET', K.lane_names, name)
  if not lane then
    lane = format('%08x', call('HINCRBY', K.meta, 'lane', 1))
    call('HSET', K.lane_names, name, lane)
    call('HSET', K.lanes, lane, cmsgpack.pack({ name, false, false, false, 'priority' }))
  end
  known_lanes[name] = lane
  return lane
end

local function may_serve(node, kind, requires)
  if not includes(node[KINDS], kind) then return false end
  for _, capability in ipairs(requires) do
    if not includes(node[CAPABILITIES], capability) then return false end
  end
  return true
end

-- Let the nodes that are here serve a route that is new.
local function offer_route(route, kind, requires)
  local nodes = call('HGETALL', K.nodes)
  for at = 1, #nodes, 2 do
    if may_serve(cmsgpack.unpack(nodes[at + 1]), kind, requires) then
      local served = call('HGET', K.node_routes, nodes[at]) or ''
      call('HSET', K.node_routes, nodes[at], served .. route)
    end
  end
end

-- `requires` comes sorted.
local function route_number(kind, requires)
  local name = kind .. '\0' .. table.concat(requires, '\0')
  local route = known_routes[name] or call('HGET', K.route_names, name)
  if not route then
    route = format('%08x', call('HINCRBY', K.meta, 'route', 1))
    call('HSET', K.route_names, name, route)
    call('HSET', K.routes, route, cmsgpack.pack({ kind, requires }))
    offer_route(route, kind, requires)
  end
  known_routes[name] = route
  return route
end
