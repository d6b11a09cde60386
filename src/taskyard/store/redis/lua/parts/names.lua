-- names: lanes and routes, and their numbers. Both exist from the first time they are named.
-- uses: base
-- KEYS meta         HASH  counters
-- KEYS lanes        HASH  lane -> packed settings: the fields below
-- KEYS lane_names   HASH  name -> lane, with a * behind it if enqueue must know its settings
-- KEYS routes       HASH  route -> packed [kind, requires]
-- KEYS route_names  HASH  kind \0 requires -> route
-- KEYS nodes        HASH  lease -> packed [id, kinds, capabilities, slots, lease_us, registered_at, rest]
-- KEYS node_routes  HASH  lease -> the routes it serves, eight digits each

-- A rate is [starts, seconds, burst, microseconds between two tokens], ageing [seconds,
-- microseconds]; false where there is none.
local LANE_NAME, CAPACITY, PAUSED, PAUSED_REASON, ORDER = 1, 2, 3, 4, 5
local MAX_DEPTH, RATE, AGEING, PAUSED_UNTIL = 6, 7, 8, 9
local NODE_ID, KINDS, CAPABILITIES, SLOTS, LEASE_US, REGISTERED_AT = 1, 2, 3, 4, 5, 6

local known_lanes, known_routes, lane_rows, served_routes = {}, {}, {}, {}

local function lane_row(lane)
  local row = lane_rows[lane]
  if not row then
    row = cmsgpack.unpack(call('HGET', K.lanes, lane))
    for at = #row + 1, PAUSED_UNTIL do
      row[at] = false
    end
    lane_rows[lane] = row
  end
  return row
end

-- Whether enqueue must know the settings of a lane.
local function is_special(row)
  return row[ORDER] ~= 'priority' or row[AGEING] or row[MAX_DEPTH]
end

local function write_lane(lane, row)
  lane_rows[lane] = row
  set(K.lanes, lane, cmsgpack.pack(row))
  set(K.lane_names, row[LANE_NAME], lane .. (is_special(row) and '*' or ''))
end

-- Answers the number, and whether enqueue must know the settings.
local function lane_number(name)
  local entry = known_lanes[name] or call('HGET', K.lane_names, name)
  if not entry then
    entry = format('%08x', call('HINCRBY', K.meta, 'lane', 1))
    write_lane(entry, { name, false, false, false, 'priority', false, false, false, false })
  end
  known_lanes[name] = entry
  if #entry == 8 then return entry, false end
  return entry:sub(1, 8), true
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

-- `requires` comes sorted.
local function route_number(kind, requires)
  local name = kind .. '\0' .. table.concat(requires, '\0')
  local route = known_routes[name] or call('HGET', K.route_names, name)
  if not route then
    route = format('%08x', call('HINCRBY', K.meta, 'route', 1))
    set(K.route_names, name, route)
    set(K.routes, route, cmsgpack.pack({ kind, requires }))
    offer_route(route, kind, requires)
  end
  known_routes[name] = route
  return route
end
