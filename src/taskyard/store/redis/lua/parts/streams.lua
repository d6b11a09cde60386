-- streams: the lanes and routes a node may take from, and how much fits into each lane.
-- uses: tasks, names, rates, heads

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

-- So many lanes are walked to know where the turn of each is; where more have something ready, a
-- claim looks at some of them.
local MANY_LANES, GOLDEN = 200, 0.6180339887498949

-- How many more may start in a lane that is looked at. Where only some lanes are looked at, one whose
-- head blocks it has no room: it would take the place of another.
local function room_found(lane, served, some)
  local room = lane_room(lane)
  if some and room and room > 0 and lane_row(lane)[ORDER] == 'fifo' and not head_goes(lane, served) then
    return 0
  end
  return room
end

-- Adds to `found` the streams with something ready, in the order of their lanes: one look each,
-- however many tasks are ready, and one for a lane that is closed or full. Of a first in, first out
-- lane also those that are not served: the head may be there. Answers whether there are no more than
-- `most` lanes with room.
local function walk(served, from, to, most, found, head)
  while true do
    head = head or first(K.ready, from, to)
    if not head then return true end
    local stream = sub(head, 1, 16)
    local lane = sub(stream, 1, 8)
    local row, passed = lane_row(lane), stream
    if not is_open(row) then
      passed = lane
    elseif served[sub(stream, 9)] or row[ORDER] == 'fifo' then
      local room = found.rooms[lane]
      if room == nil then
        if found.lanes == most then return false end
        room = room_found(lane, served, found.some)
        found.rooms[lane] = room
        if not room or room > 0 then found.lanes = found.lanes + 1 end
      end
      if not room or room > 0 then
        table.insert(found.streams, stream)
      else
        passed = lane
      end
    end
    from, head = '(' .. passed .. '\255', nil
  end
end

-- The streams a claim looks at, in the order of their lanes, and what fits into these; `some`: there
-- are more. Then it begins anywhere, with each number somewhere else, and goes round.
local function open_streams(search, most)
  local found = { streams = {}, rooms = {}, lanes = 0 }
  local head = search.head
  search.head = nil -- the first ready task of all, until something is taken
  if walk(search.served, '-', '+', MANY_LANES, found, head) then return found end
  found = { streams = {}, rooms = {}, lanes = 0, some = true }
  local lanes = tonumber(call('HGET', K.meta, 'lane'))
  local lane = format('%08x', math.floor(search.number * GOLDEN % 1 * lanes) + 1)
  if walk(search.served, '[' .. lane, '+', most, found) then
    walk(search.served, '-', '(' .. lane, most, found)
  end
  return found
end
