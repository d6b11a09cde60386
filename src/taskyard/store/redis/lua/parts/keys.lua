-- keys: who holds them, who waits for them, and how room that came free finds a waiter.
-- uses: members, rates, rules
-- built when needed
-- KEYS held  ZSET  key \0 no: a running task's hold on a key

-- A queued task that meets a full key is parked on it. The rule that keeps parking honest: while
-- a key has room for f more, in every lane and route at least f ready tasks that carry the key
-- come before every task parked on it. `wake` restores it whenever room grows, or a ready
-- carrier leaves without taking room.

local function limit_of(key)
  return rule_of(key)[1]
end

local function rate_of(key)
  local rule = rule_of(key)
  return rule[2] and { unpack(rule, 2) }
end

local MANY_NAMES, HOLDERS_A_NAME = 8, 4

-- The holds of tasks that are completed leave when everything else is written.
local let_go, gone, goers = { mixed = true }, {}, 0

local function let_go_of(key, no)
  goers = goers + 1
  let_go[goers] = key .. '\0' .. no
  gone[key] = (gone[key] or 0) + 1
  if goers == 1 then leave(K.held, let_go) end
end

-- How many hold a key; those who leave do no longer.
local function holders_of(key)
  return count_of(K.held, key .. '\0') - (leaving[K.held] and gone[key] or 0)
end

-- The same of all keys that somebody holds; nothing if there are more than so many holds.
local function all_holders(most)
  send_waiting(K.held)
  local count, counts = call('ZCARD', K.held), {}
  if count > most then return end
  if leaving[K.held] and count == goers then return counts end -- all of them leave
  for _, member in ipairs(call('ZRANGEBYLEX', K.held, '-', '+')) do
    local key = sub(member, 1, -16)
    counts[key] = (counts[key] or 0) + 1
  end
  for key, count in pairs(leaving[K.held] and gone or {}) do
    if counts[key] then counts[key] = counts[key] - count end
  end
  return counts
end

-- How many more may hold a key, whatever its rate.
local function places_in(key)
  return limit_of(key) - holders_of(key)
end

local function room_beside(holders, key)
  local rate, places = rate_of(key), limit_of(key) - holders
  return rate and math.min(places, tokens_in('k=' .. key, rate)) or places
end

local function room_in(key)
  return room_beside(holders_of(key), key)
end

-- The room in each of these keys. To ask for each of many takes longer than to read who holds any, unless
-- those are many more.
local function rooms_in(names)
  local rooms, most = {}, HOLDERS_A_NAME * #names
  local holders = #names > MANY_NAMES and all_holders(most)
  for _, key in ipairs(names) do
    rooms[key] = room_beside(holders and (holders[key] or 0) or holders_of(key), key)
  end
  return rooms
end

local function is_waited_for(key)
  return first(K.parked, '[' .. key .. '\0', '(' .. key .. '\1') ~= nil
end

-- Calls `visit` with each lane and route in which someone waits for the key.
local function each_waiting_stream(key, visit)
  local from, to = '[' .. key .. '\0', '(' .. key .. '\1'
  while true do
    local head = first(K.parked, from, to)
    if not head then return end
    local stream = head:sub(1, #key + 17)
    visit(stream)
    from = '(' .. stream .. '\255'
  end
end

-- Let the first `count` waiters of each lane and route be looked at again, or `each` for every one.
-- A waiter in a full lane must not stand before one in a lane with room, hence some of each.
local function wake_waiters(key, count, each)
  local room = room_in(key)
  if room <= 0 then return end
  local woken, count = {}, math.min(count, room) * (each or 1)
  each_waiting_stream(key, function(stream)
    for _, no in ipairs(tasks_at(K.parked, '[' .. stream, '(' .. stream .. '\255', count)) do
      woken[#woken + 1] = no
    end
  end)
  for _, no in ipairs(woken) do
    park_on(no, load(no), false)
  end
end

-- counts: key -> units of room that came free, or carriers that left without taking room.
local function wake(counts, each)
  if not first(K.parked, '-', '+') then return end
  for key, count in pairs(counts) do
    wake_waiters(key, count, each)
  end
end

-- Somebody who waits for the rate of a key is told when it has a token more.
local function tell_waiters(key, rate)
  local name = 'k=' .. key
  local left = tokens_in(name, rate)
  tell_of(name, rate, left == 0 or left < rate[BURST] and is_waited_for(key))
end

local function count_keys(counts, task, but)
  if not task[KEY_NAMES] then return end
  for _, key in ipairs(task[KEY_NAMES]) do
    if key ~= but then counts[key] = (counts[key] or 0) + 1 end
  end
end

-- Calls `visit` with each key that begins like this and someone is parked on.
local function each_waited_key(prefix, visit)
  local from, to = '[' .. prefix, '(' .. prefix .. '\255'
  while true do
    local head = first(K.parked, from, to)
    if not head then return end
    local key = head:sub(1, head:find('%z') - 1)
    visit(key)
    from = '(' .. key .. '\1'
  end
end
