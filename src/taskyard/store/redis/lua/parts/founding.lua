-- founding: lanes and routes that are new, and settings of lanes that change.
-- uses: names
-- built when needed

local served_routes = {}

-- Whether enqueue must know the settings of a lane.
local function is_special(row)
  return row[ORDER] ~= 'priority' or row[AGEING] or row[MAX_DEPTH]
end

local function write_lane(lane, row)
  lane_rows[lane] = row
  set(K.lanes, lane, cmsgpack.pack(row))
  set(K.lane_names, row[LANE_NAME], lane .. (is_special(row) and '*' or ''))
end

local function new_lane(name)
  local lane = format('%08x', call('HINCRBY', K.meta, 'lane', 1))
  write_lane(lane, { name, false, false, false, 'priority', false, false, false, false })
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
    local lease = nodes[at]
    if may_serve(cmsgpack.unpack(nodes[at + 1]), kind, requires) then
      local served = served_routes[lease] or call('HGET', K.node_routes, lease) or ''
      served_routes[lease] = served .. route
      set(K.node_routes, lease, served_routes[lease])
    end
  end
end

local function new_route(name, kind, requires)
  local route = format('%08x', call('HINCRBY', K.meta, 'route', 1))
  set(K.route_names, name, route)
  set(K.routes, route, cmsgpack.pack({ kind, requires }))
  offer_route(route, kind, requires)
  return route
end
