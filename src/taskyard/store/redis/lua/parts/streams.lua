-- streams: the lanes and routes a node may take from, and how much fits into each lane.
-- uses: tasks, names, rates

-- More than can ever run: a figure, unlike no limit, keeps tasks from being claimed ahead.
local PLENTY = 1000000000

local function is_open(row)
  return not row[PAUSED] or (row[PAUSED_UNTIL] and row[PAUSED_UNTIL] <= now)
end

-- How many more may start in a lane; false: no limit.
local function lane_room(lane)
  local row = lane_row(lane)
  local room = row[ORDER] ~= 'priority' and PLENTY
  if row[CAPACITY] then room = row[CAPACITY] - count_of(K.running, lane) end
  if row[RATE] then room = math.min(room or PLENTY, tokens_in('r=' .. lane, row[RATE])) end
  return room
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
-- tasks are ready. Of a first in, first out lane also those that are not served: the head may be
-- there.
local function open_streams(served)
  local streams, rooms, from = {}, {}, '-'
  while true do
    local head = first(K.ready, from, '+')
    if not head then return streams, rooms end
    local stream = head:sub(1, 16)
    local lane = stream:sub(1, 8)
    local row = lane_row(lane)
    if (served[stream:sub(9)] or row[ORDER] == 'fifo') and is_open(row) then
      if rooms[lane] == nil then rooms[lane] = lane_room(lane) end
      if not rooms[lane] or rooms[lane] > 0 then streams[#streams + 1] = stream end
    end
    from = '(' .. stream .. '\255'
  end
end
