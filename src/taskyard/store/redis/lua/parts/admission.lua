-- admission: which of these candidates may run now; the rule of domain/admission.py.
-- uses: keys
-- built when needed

-- The heads of all queues, then their seconds, …; `start` rotates who is first.
local function interleave(queues, start)
  if #queues == 1 then return queues[1] end
  local row, longest = {}, 0
  for _, queue in ipairs(queues) do
    longest = math.max(longest, #queue)
  end
  for rank = 1, longest do
    for turn = 0, #queues - 1 do
      local queue = queues[(start + turn) % #queues + 1]
      if queue[rank] then row[#row + 1] = queue[rank] end
    end
  end
  return row
end

local function copy(map)
  local twin = {}
  for key, value in pairs(map) do
    twin[key] = value
  end
  return twin
end

local function full_key(no, keys)
  local known = glances[no]
  if known then
    local key = carried[no]
    return key and keys[key] <= 0 and key
  end
  for _, key in ipairs(keys_of(load(no))) do
    if keys[key] <= 0 then return key end
  end
end

local function use_keys(no, keys)
  if glances[no] then
    local key = carried[no]
    if key then keys[key] = keys[key] - 1 end
    return
  end
  for _, key in ipairs(keys_of(load(no))) do
    keys[key] = keys[key] - 1
  end
end

-- A task whose last node died is never claimed ahead, so that a loss is counted.
local function may_wait(no, lane_room)
  if lane_room then return false end
  local known = glances[no]
  if known then return not carried[no] and known.ending[ENDING_REASON] ~= 'rescued' end
  local task = load(no)
  return not task[KEY_NAMES] and task[REASON] ~= 'rescued'
end

-- Goes through the candidates in order and takes each one that still fits. Behind the first `count`
-- nothing starts any more, but who is blocked parks.
-- room: slots, ahead, lanes (lane -> figure or false), keys (key -> figure), fifo (lanes where
-- nothing is passed over)
local function admit(candidates, count, room)
  local slots, ahead = room.slots, room.ahead
  local lanes, keys = copy(room.lanes), copy(room.keys)
  local taken = { now = {}, later = {}, parked = {} }
  for at = 1, #candidates do
    local no = candidates[at]
    local lane = lane_at(no)
    if not lanes[lane] or lanes[lane] > 0 then
      local full = full_key(no, keys)
      if full and room.fifo[lane] then
        lanes[lane] = 0
      elseif full then
        taken.parked[#taken.parked + 1] = { at = at, no = no, key = full }
      elseif slots > 0 and at <= count then
        slots = slots - 1
        taken.now[#taken.now + 1] = no
        if lanes[lane] then lanes[lane] = lanes[lane] - 1 end
        use_keys(no, keys)
      elseif slots + ahead <= 0 then
        break
      elseif slots <= 0 and at <= count and may_wait(no, lanes[lane]) then
        ahead = ahead - 1
        taken.later[#taken.later + 1] = no
      end
    end
  end
  return taken
end

-- The first that parks on one key and leaves room in another to those who wait for it: they are
-- not among the candidates yet, but come before whatever follows it. Answers where it stands.
local function giving_way(parked, room)
  for _, one in ipairs(parked) do
    for _, key in ipairs(keys_of(load(one.no))) do
      if key ~= one.key and room.keys[key] > 0 and is_waited_for(key) then return one.at end
    end
  end
end
