-- enqueue.lua: save these tasks, all or none; answers the id that stands in the way of each, or ''.
-- uses: keys, names
-- KEYS ids     HASH  id -> no
-- KEYS by_key  ZSET  key \0 no: which tasks name a key
-- args: tasks, the hold that must be accepted or nil

local tasks, by = args[1], args[2]

if by and not accepted(by) then return false end

local function due_at(task)
  if task.delay then return now + math.floor(task.delay * 1000000 + 0.5) end
  return task.run_at or now
end

local room = {}

-- The first of its keys that is full at this moment.
local function full_key(task)
  for _, key in ipairs(task.keys) do
    if not room[key] then room[key] = room_in(key) end
    if room[key] <= 0 then return key end
  end
  return false
end

local function definition(task)
  local dedup = task.dedup
  return cmsgpack.pack({
    task.id, task.kind, task.lane, task.payload, task.group, dedup and dedup.key or false,
    dedup and dedup['until'] or false, task.requires, task.max_charged, task.timeout, now,
  })
end

local function save(number, task, stream)
  local no, run_at = as_text(number), due_at(task)
  local due = run_at <= now
  local dedup = task.dedup
  set(K.ids, task.id, no)
  set(K.tasks, no, definition(task))
  if dedup then call('HSET', K.dedup, dedup.key, no) end
  for _, key in ipairs(task.keys) do
    put(K.by_key, key .. '\0' .. no)
  end
  set_down(no, {
    due and 'queued' or 'pending', 'created', 0, 0, task.max_charged, 0,
    stream, '', rank_of(task.priority, number), #task.keys > 0 and task.keys,
    due and full_key(task), run_at, task.deadline or false, false, false, false, false,
    false, false, dedup and dedup.key or false, dedup and dedup['until'] or false,
  })
end

local ids = {}
for at, task in ipairs(tasks) do
  ids[at] = task.id
end

local taken = get_many(K.ids, ids)
local number, saved, clashes = numbers(#tasks), {}, {}

-- The id of the task that has this id already, or keeps this dedup key.
local function in_the_way(at, task)
  if taken[at] or saved[task.id] then return task.id end
  local keeper = task.dedup and call('HGET', K.dedup, task.dedup.key)
  if not keeper then return '' end
  return saved[keeper] or ids_of({ keeper })[1]
end

for at, task in ipairs(tasks) do
  local stream = lane_number(task.lane) .. route_number(task.kind, task.requires)
  clashes[at] = in_the_way(at, task)
  if clashes[at] == '' then
    save(number + at, task, stream)
    saved[task.id], saved[as_text(number + at)] = true, task.id
  end
end

commit()
return cmsgpack.pack(clashes)
