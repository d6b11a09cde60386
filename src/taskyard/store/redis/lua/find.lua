-- find.lua: tasks by filter, newest first.
-- uses: current, reading, names, needing
-- KEYS by_key  ZSET  key \0 no
-- args: states, lane, kind, key, limit, no of the last one seen; nil where there is no filter; whether
-- to tell whose end each waits for
-- Answers {where to go on or '', whole tasks, ids of those each waits for if asked}: a search by key
-- stops after MAX_LOOKS.

local states, lane_name, kind, key, limit, after = args[1], args[2], args[3], args[4], args[5], args[6]
local MAX_LOOKS, CHUNK_SIZE, MAX_CHUNK = 5000, 50, 500

local entry = lane_name and call('HGET', K.lane_names, lane_name)
local lane = entry and entry:sub(1, 8)
local kinds_routes

-- Whether tasks of this lane and route are asked for.
local function wanted_stream(stream)
  if lane_name and stream:sub(1, 8) ~= lane then return false end
  if not kind then return true end
  if not kinds_routes then
    kinds_routes = {}
    local routes = call('HGETALL', K.routes)
    for at = 1, #routes, 2 do
      kinds_routes[routes[at]] = cmsgpack.unpack(routes[at + 1])[1] == kind
    end
  end
  return kinds_routes[stream:sub(9)]
end

-- The next members below `below`, newest first.
local function page(index, prefix, below, size)
  return call('ZREVRANGEBYLEX', index, '(' .. prefix .. below, '[' .. prefix, 'LIMIT', 0, size)
end

local newest = after and as_text(after) or '\255'

-- One list for each stream of a state, read as far as it is needed: at first its head.
local lists = {}

local function advance(list)
  list.at = list.at + 1
  if list.at > #list.members then
    local size = list.below == newest and 1 or CHUNK_SIZE
    list.members, list.at = page(list.index, list.stream, list.below, size), 1
  end
  local member = list.members[list.at]
  list.head = member and number_at(member)
  list.below = list.head
end

local function open_lists(index)
  local from = '[' .. (lane or '')
  local to = lane and '(' .. lane .. '\255' or '+'
  while true do
    local member = first(index, from, to)
    if not member then return end
    local stream = member:sub(1, 16)
    if wanted_stream(stream) then
      local list = { index = index, stream = stream, below = newest, members = {}, at = 0 }
      advance(list)
      if list.head then lists[#lists + 1] = list end
    end
    from = '(' .. stream .. '\255'
  end
end

-- The lists are a heap: none is newer than lists[1], nor than the one at half its number. Lets the
-- first sink to where it belongs.
local function settle_first()
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

local function by_stream()
  local nos = {}
  if lane_name and not lane then return nos end
  for _, state in ipairs(states) do
    open_lists(K[state])
  end
  table.sort(lists, function(a, b) return a.head > b.head end)
  for at = #lists, limit + 1, -1 do
    lists[at] = nil -- there are enough newer ones
  end
  while #nos < limit and lists[1] do
    nos[#nos + 1] = lists[1].head
    advance(lists[1])
    local last = not lists[1].head and table.remove(lists)
    if last and lists[1] then lists[1] = last end
    if lists[1] then settle_first() end
  end
  return nos
end

local function by_key()
  local nos, below, looks, prefix, size = {}, newest, 0, key .. '\0', CHUNK_SIZE
  while looks < MAX_LOOKS do
    local members = page(K.by_key, prefix, below, size)
    size = math.min(2 * size, MAX_CHUNK)
    if #members == 0 then return nos, '' end
    looks = looks + #members
    for at, member in ipairs(members) do
      members[at] = number_at(member)
    end
    load_many(members)
    for _, no in ipairs(members) do
      local task = load(no)
      below = no
      if task and includes(states, task[STATE]) and wanted_stream(task[STREAM]) then
        nos[#nos + 1] = no
        if #nos == limit then return nos, '' end
      end
    end
  end
  return nos, below
end

if key then
  local nos, go_on = by_key()
  return { go_on, whole_tasks(nos) }
end
local nos, unmet = by_stream(), {}
if not args[7] then return { '', whole_tasks(nos) } end
for at, no in ipairs(nos) do
  local task = load(no)
  unmet[at] = task and (task[WAITS_FOR] or 0) > 0 and unmet_of(no) or {}
end
return { '', whole_tasks(nos), unmet }
