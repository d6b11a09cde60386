-- candidates: a set of tasks from all lanes that a claim looks at, whatever they are.
-- uses: streams, turns, admission, taking, expiring
-- built when needed

-- Where much is parked the sets grow.
local MAX_WOKEN, GROWTH = 200, 4
-- Where in a member of `ready` the place is, behind the stream.
local PLACE_AT = 17

-- Whether one task comes before another in the order of their lane.
local function comes_before(a, b)
  return place_in_lane(a) < place_in_lane(b)
end

local function queue_of(lane, queues, of_lane)
  if not of_lane[lane] then
    of_lane[lane] = { lane = lane, streams = {} }
    queues[#queues + 1] = of_lane[lane]
  end
  return of_lane[lane]
end

-- The first of these lists of members, each in the order of its lane, as one.
local function merged(lists, limit)
  local found, n, at, heads = {}, 0, {}, {}
  for i, list in ipairs(lists) do
    at[i], heads[i] = 1, list[1] and sub(list[1], PLACE_AT)
  end
  while n < limit do
    local first
    for i = 1, #lists do
      if heads[i] and (not first or heads[i] < heads[first]) then first = i end
    end
    if not first then break end
    local list, next_at = lists[first], at[first] + 1
    n = n + 1
    found[n] = list[next_at - 1]
    at[first], heads[first] = next_at, list[next_at] and sub(list[next_at], PLACE_AT)
  end
  return found
end

-- One lane's first ready tasks in its order, whatever their routes, and whether there are more.
local function first_in(streams, limit)
  while true do
    local lists, count = {}, 0
    for i, stream in ipairs(streams) do
      lists[i] = range(K.ready, '[' .. stream, '(' .. stream .. '\255', limit)
      count = count + #lists[i]
    end
    local members = #lists == 1 and lists[1] or merged(lists, limit)
    local nos = readable(K.ready, members)
    if #nos == #members then return nos, count >= limit end
  end
end

-- The head of a first in, first out lane and those behind it, as far as each is the head in turn.
local function heads(queue, served)
  local found = {}
  for at, no in ipairs(queue) do
    if not is_late(no) and not served[stream_of(no):sub(9)] then break end
    found[at] = no
  end
  return found
end

local function in_lanes_order(queue, found, served)
  local order = lane_row(queue.lane)[ORDER]
  if order == 'fifo' then return heads(found, served) end
  if order == 'fair' then return take_turns(found, queue.streams) end
  return found
end

-- The lane whose turn it is, by its place among these: with each number that of another one. It is
-- still its turn in the next set of candidates, whoever has left.
local function turn_among(queues, search)
  if not search.turn then search.turn = queues[search.number % #queues + 1].lane end
  for at, queue in ipairs(queues) do
    if queue.lane >= search.turn then return at - 1 end
  end
  return 0
end

-- The heads of each lane in turn, and whether there was more behind them. Of each lane come no more
-- than its share: if some have less, there is another set.
local function find_candidates(found, want, search)
  local queues, of_lane, cut_short = {}, {}, found.some
  local share = math.ceil(want / found.lanes)
  for _, stream in ipairs(found.streams) do
    table.insert(queue_of(sub(stream, 1, 8), queues, of_lane).streams, stream)
  end
  local turn = found.some and 0 or turn_among(queues, search)
  for at, queue in ipairs(queues) do
    local room = found.rooms[queue.lane]
    local limit = math.min((room and math.min(share, room) or share) * search.reach, MAX_SET)
    local nos, more = first_in(queue.streams, limit)
    queues[at], cut_short = in_lanes_order(queue, nos, search.served), cut_short or more
  end
  return interleave(queues, turn), cut_short
end

-- Splits those whose deadline has passed from the others.
local function take_out_late(found)
  local fine, late, dropped = {}, {}, {}
  for _, no in ipairs(found) do
    if not glances[no] and is_late(no) then
      late[#late + 1] = no
      count_keys(dropped, load(no))
    else
      fine[#fine + 1] = no
    end
  end
  return fine, late, dropped
end

local function rooms_of_keys(found)
  local names, seen = {}, {}
  local function name(key)
    if not seen[key] then seen[key], names[#names + 1] = true, key end
  end
  for _, no in ipairs(found) do
    local known = glances[no]
    if not known then
      for _, key in ipairs(keys_of(load(no))) do
        name(key)
      end
    elseif carried[no] then
      name(carried[no])
    end
  end
  return #names > 0 and rooms_in(names) or {}
end

local function fifo_lanes(rooms)
  local lanes = {}
  for lane in pairs(rooms) do
    lanes[lane] = lane_row(lane)[ORDER] == 'fifo'
  end
  return lanes
end

-- Those behind them may have the same keys and move as they did: in sets that grow.
local function park(parked, each)
  local passed = {}
  for _, one in ipairs(parked) do
    local task = load(one.no)
    park_on(one.no, task, one.key)
    count_keys(passed, task, one.key)
  end
  wake(passed, each)
end

local function apply(taken, search)
  take_many(taken.now, search.now, search, now)
  take_many(taken.later, search.later, search, false)
  search.slots = search.slots - #taken.now
  search.ahead = search.ahead - #taken.later
  if #taken.parked > 0 then
    search.reach = search.reach * GROWTH
    park(taken.parked, math.min(search.reach, MAX_WOKEN))
  end
end

-- See rows.
local function go_no_further(taken, search, rooms)
  if #taken.now < MANY_ALIKE or #taken.later > 0 then return end
  for _, no in ipairs(taken.now) do
    if may_wait(no, rooms[lane_at(no)]) then return end
  end
  search.ahead = 0
end

-- Takes from the first tasks of these streams; says whether another look could find more.
local function take_candidates(search, open, want)
  local rooms = open.rooms
  local candidates, cut_short = find_candidates(open, want, search)
  local found, late, dropped = take_out_late(candidates)
  if #late > 0 then expire_these(late) end
  if next(dropped) then
    wake(dropped)
    return true -- whoever waited behind them comes before what follows
  end
  local room = {
    slots = search.slots, ahead = search.ahead, lanes = rooms, keys = rooms_of_keys(found),
    fifo = fifo_lanes(rooms),
  }
  local taken = admit(found, #found, room)
  local until_here = giving_way(taken.parked, room)
  if until_here then taken = admit(found, until_here, room) end
  go_no_further(taken, search, rooms)
  apply(taken, search)
  if #late > 0 or #taken.parked > 0 then return true end
  -- Tasks that may not be claimed ahead would be found again and again.
  return cut_short and #taken.now + #taken.later > 0
end

-- What was taken before, in the order of its lane.
local function taken_before(nos)
  local taken = nobody()
  table.sort(nos, comes_before)
  for _, no in ipairs(nos) do
    note_task(taken, no)
  end
  return taken
end
