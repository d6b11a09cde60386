-- streams: the lanes and routes a node may take from, and how much fits into each lane.
-- uses: tasks, names

local lane_rows = {}

local function lane_row(lane)
  if not lane_rows[lane] then
    lane_rows[lane] = cmsgpack.unpack(call('HGET', K.lanes, lane))
  end
  return lane_rows[lane]
end

-- How many more may run in a lane; false: no limit.
local function lane_room(lane)
  local capacity = lane_row(lane)[CAPACITY]
  return capacity and capacity - count_of(K.running, lane)
end

-- The routes a lease serves, as a set.
local function routes_of(lease)
  local served = {}
  for route in (call('HGET', K.node_routes, whole(lease)) or ''):gmatch('........') do
    served[route] = true
  end
  return served
end

-- The streams with something ready, in the order of their lanes: one look each, however many
-- tasks are ready.
local function open_streams(served)
  local streams, rooms, from = {}, {}, '-'
  while true do
    local head = first(K.ready, from, '+')
    if not head then return streams, rooms end
    local stream = head:sub(1, 16)
    local lane = stream:sub(1, 8)
    if served[stream:sub(9)] and not lane_row(lane)[PAUSED] then
      if rooms[lane] == nil then rooms[lane] = lane_room(lane) end
      if not rooms[lane] or rooms[lane] > 0 then streams[#streams + 1] = stream end
    end
    from = '(' .. stream .. '\255'
  end
end
