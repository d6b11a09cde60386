-- searching: the numbers of tasks by filter, newest first, a short search at a time.
-- uses: definitions, names
-- KEYS by_key  ZSET  key \0 no

local MAX_LOOKS, CHUNK_SIZE, MAX_CHUNK = 5000, 50, 500
local NEWEST = '\255'

-- Members of an index from below one bound down to another.
local function newest(index, below, least, count)
  return call('ZREVRANGEBYLEX', index, '(' .. below, '[' .. least, 'LIMIT', 0, count)
end

-- A list is a stretch of an index whose members begin with `prefix`, in the order of their numbers.
-- It is read from below `below` down to `least`, as far as it is needed: at first its head.
local function new_list(index, prefix)
  return { index = index, prefix = prefix, least = '', members = {}, at = 0, size = 1 }
end

local function advance(list)
  list.at = list.at + 1
  if list.at > #list.members then
    local prefix = list.prefix
    list.members = newest(list.index, prefix .. list.below, prefix .. list.least, list.size)
    list.at, list.size = 1, math.min(math.max(2 * list.size, CHUNK_SIZE), MAX_CHUNK)
  end
  local member = list.members[list.at]
  list.head = member and number_at(member)
  list.below = list.head
end

-- A number of a list from `low` on and below `high`: the first from the middle on, or the last below it.
local function number_between(list, low, high)
  local middle = list.prefix .. as_text(math.floor((low + high) / 2))
  local member = first(list.index, '[' .. middle, '(' .. list.prefix .. as_text(high))
    or newest(list.index, middle, list.prefix .. as_text(low), 1)[1]
  return member and as_number(number_at(member))
end

-- The first number whose task in one of these lists was created at this moment or later. Times follow
-- numbers, so what one list tells narrows the search in the others.
local function number_since(lists, moment)
  local low, high = 0, tonumber(call('HGET', K.meta, 'seq') or 0) + 1
  for _, list in ipairs(lists) do
    while true do
      local number = low < high and number_between(list, low, high)
      if not number then break end
      if created_at(as_text(number)) >= moment then high = number else low = number + 1 end
    end
  end
  return as_text(high)
end

-- The lists are a heap: none is newer than lists[1], nor than the one at half its number. Lets the
-- first sink to where it belongs.
local function settle_first(lists)
  local list, at = lists[1], 1
  while true do
    local below = 2 * at
    if lists[below + 1] and lists[below + 1].head > lists[below].head then below = below + 1 end
    if not lists[below] or lists[below].head < list.head then break end
    lists[at] = lists[below]
    at = below
  end
  lists[at] = list
end

-- State and stream of a task.
local function state_and_stream(no)
  local known = glance(no)
  if known then return known.ending[ENDING_STATE], known.stream end
  local task = load(no)
  return task and task[STATE], task and task[STREAM]
end

-- Whether tasks of a lane and route are asked for, as a function of their stream. `lane` is the number
-- of the one that is asked for, if one is.
local function stream_test(lane, kind)
  local of_kind
  return function(stream)
    if lane and stream:sub(1, 8) ~= lane then return false end
    if not kind then return true end
    if not of_kind then
      of_kind = {}
      local routes = call('HGETALL', K.routes)
      for at = 1, #routes, 2 do
        of_kind[routes[at]] = cmsgpack.unpack(routes[at + 1])[1] == kind
      end
    end
    return of_kind[stream:sub(9)]
  end
end

-- Those of a state: one a stream.
local function add_lists(lists, index, lane, is_wanted)
  local from = '[' .. (lane or '')
  local to = lane and '(' .. lane .. '\255' or '+'
  while true do
    local member = first(index, from, to)
    if not member then return end
    local stream = member:sub(1, 16)
    if is_wanted(stream) then lists[#lists + 1] = new_list(index, stream) end
    from = '(' .. stream .. '\255'
  end
end

-- Those that have something in this stretch, the newest first.
local function opened(lists, below, least)
  local open = {}
  for _, list in ipairs(lists) do
    list.below, list.least = below, least
    advance(list)
    if list.head then open[#open + 1] = list end
  end
  table.sort(open, function(a, b) return a.head > b.head end)
  return open
end

-- The newest number of all lists has been taken.
local function step(open)
  advance(open[1])
  local last = not open[1].head and table.remove(open)
  if last and open[1] then open[1] = last end
  if open[1] then settle_first(open) end
end

-- The lives of the tasks a list goes on with.
local function load_ahead(list)
  local nos = {}
  for at = list.at, #list.members do
    nos[#nos + 1] = number_at(list.members[at])
  end
  load_many(nos)
end

-- query: {states, lane, kind, key, since, until, slack, limit, no of the last one seen}; nil where
-- there is no filter.
-- Answers the numbers, and where to go on if it stopped before there were enough: what no index knows
-- is looked at, MAX_LOOKS tasks at most.
local function search(query)
  local states, lane_name, kind, key = query[1], query[2], query[3], query[4]
  local since, before, slack, limit, after = query[5], query[6], query[7], query[8], query[9]
  local entry = lane_name and call('HGET', K.lane_names, lane_name)
  if lane_name and not entry then return {}, '' end
  local lane = entry and entry:sub(1, 8)
  local is_wanted = stream_test(lane, kind)

  local lists, in_states = {}, {}
  for _, state in ipairs(states) do
    in_states[state] = true
    if not key then add_lists(lists, K[state], lane, is_wanted) end
  end
  if key then lists[1] = new_list(K.by_key, key .. '\0') end

  local below, least = after and as_text(after) or NEWEST, ''
  if before then
    local bound = number_since(lists, before + slack)
    if bound < below then below = bound end
  end
  if since then least = number_since(lists, since - slack) end

  local function fits(no, list)
    if key then
      if packed_lives[no] == nil then load_ahead(list) end
      local state, stream = state_and_stream(no)
      if not (in_states[state] and is_wanted(stream)) then return false end
    end
    if not (since or before) then return true end
    local created = created_at(no)
    return created >= (since or created) and created < (before or math.huge)
  end

  local open, looks_at_each = opened(lists, below, least), key or since or before
  for at = #open, looks_at_each and #open + 1 or limit + 1, -1 do
    open[at] = nil -- there are enough newer ones
  end
  local nos, looks, last = {}, 0, nil
  while #nos < limit and open[1] do
    if looks == MAX_LOOKS then return nos, last end
    last = open[1].head
    if not looks_at_each or fits(last, open[1]) then nos[#nos + 1] = last end
    if looks_at_each then looks = looks + 1 end
    step(open)
  end
  return nos, ''
end
