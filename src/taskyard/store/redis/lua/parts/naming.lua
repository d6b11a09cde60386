-- naming: the numbers of lanes and routes, by their names.
-- uses: founding

local known_lanes, known_routes = {}, {}

-- Answers the number, and whether enqueue must know the settings.
local function lane_number(name)
  local entry = known_lanes[name] or call('HGET', K.lane_names, name) or new_lane(name)
  known_lanes[name] = entry
  if #entry == 8 then return entry, false end
  return entry:sub(1, 8), true
end

-- `requires` comes sorted.
local function route_number(kind, requires)
  local name = kind .. '\0' .. table.concat(requires, '\0')
  local route = known_routes[name] or call('HGET', K.route_names, name)
    or new_route(name, kind, requires)
  known_routes[name] = route
  return route
end
