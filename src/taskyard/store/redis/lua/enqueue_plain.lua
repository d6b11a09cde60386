-- enqueue_plain.lua: save tasks that are plain, into lanes and routes that are known, all or none.
-- uses: keys, names
-- KEYS ids     HASH  id -> no
-- KEYS by_key  ZSET  key \0 no: which tasks name a key
-- args: sorts of tasks, each [lane, name of its route, max_charged, priority]; the sort of each task;
-- ids; definitions, packed but for the time at their end; the key of each, or false;
-- nil, or the traces of those that carry one, by their places
-- Answers 1; 0 if it is not that simple, or the name of the lane because of which it is not: then
-- nothing is done, and enqueue.lua does it. What it does for such tasks is done here in fewer steps.

local sorts, sort_of, ids, definitions, keys, traces = args[1], args[2], args[3], args[4], args[5], args[6]

-- Answers the number of a lane, or 0, or its name.
local function plain_lane(name)
  local entry = call('HGET', K.lane_names, name)
  if not entry then return 0 end
  return #entry == 8 and entry or name
end

local lanes = {}
for at, sort in ipairs(sorts) do
  local lane, route = lanes[sort[1]] or plain_lane(sort[1]), call('HGET', K.route_names, sort[2])
  if not route then return 0 end
  if lane == 0 or lane == sort[1] then return lane end
  lanes[sort[1]] = lane
  local stream, rank = lane .. route, as_text(sort[4])
  sorts[at] = { stream = stream, rank = rank, max_charged = sort[3], priority = sort[4],
    ready = stream .. rank,
    head = cmsgpack.pack(0, 0, 0, sort[3], sort[4], stream) .. '\194\194' }
end

for _, there in ipairs(get_many(K.ids, ids)) do
  if there then return 0 end
end

-- The lives of all tasks of a sort without a key are the same: place and RUN_AT are false.
local time = cmsgpack.pack(now)
local ending = cmsgpack.pack('queued', 'created', false, false, false, false, false) .. ALL_FALSE
for _, sort in ipairs(sorts) do
  sort.life = LIFE_HEAD .. char(WIDTH_BASE + 3) .. sort.head .. '\194' .. ending
end

local rooms = {}

-- The life of a task with a key, and whether that has room: else the task is parked on it.
local function keyed_life(no, sort, key)
  if not rooms[key] then rooms[key] = room_in(key) end
  put(K.by_key, key .. '\0' .. no)
  if rooms[key] > 0 then
    return LIFE_HEAD .. char(WIDTH_BASE + 4 + #key) .. sort.head .. cmsgpack.pack({ key }) .. ending, true
  end
  put(K.parked, key .. '\0' .. sort.ready .. no .. no)
  return cmsgpack.pack({ false, 0, 0, 0, sort.max_charged, sort.priority, sort.stream, false, false, { key },
    'queued', 'created', false, false, false, false, false, key, false, false, false, false })
end

local number = numbers(#ids)
local numbered, defined, lives, queued, ready, n = {}, {}, {}, {}, {}, 0
for at, id in ipairs(ids) do
  local no, sort, value = as_text(number + at), sorts[sort_of[at]], 2 * at
  local member = value - 1
  numbered[member], numbered[value] = id, no
  defined[member], defined[value] = no, definitions[at] .. time
  queued[member], queued[value] = '0', sort.stream .. no
  local life, has_room = sort.life, true
  if keys[at] then life, has_room = keyed_life(no, sort, keys[at]) end
  lives[member], lives[value] = no, life
  if has_room then
    ready[n + 1], ready[n + 2], n = '0', sort.ready .. no .. no, n + 2
  end
end
if traces then
  for at, trace in pairs(traces) do
    defined[2 * at] = defined[2 * at] .. cmsgpack.pack(trace)
  end
end
in_chunks('HSET', K.ids, numbered)
in_chunks('HSET', K.tasks, defined)
in_chunks('HSET', K.lives, lives)
in_chunks('ZADD', K.queued, queued)
in_chunks('ZADD', K.ready, ready)
if n > 0 then hint() end
write_all()
return 1
