-- enqueuing: saves new tasks.
-- uses: keys, dependencies
-- KEYS ids     HASH  id -> no
-- KEYS by_key  ZSET  key \0 no: which tasks name a key

local room, depths, turns_seen = {}, {}, {}
local defined, kept = {}, {} -- by this call: no -> definition, dedup key -> no
local known, refused = {}, {} -- id -> {no, id it has}; id -> true

-- Nothing of a call is written before `commit`, so it can be given up at any point.
local DUPLICATE, CHANGED, REFUSED = 'd', 'c', 'r'

local function due_at(task)
  if task.delay then return now + math.floor(task.delay * 1000000 + 0.5) end
  return task.run_at or now
end

-- The first of its keys that is full at this moment.
local function full_key(task)
  for _, key in ipairs(task.keys) do
    if not room[key] then room[key] = room_in(key) end
    if room[key] <= 0 then return key end
  end
  return false
end

local function define(no, task)
  local dedup = task.dedup
  defined[no] = {
    task.id, task.kind, task.lane, task.payload, task.group, dedup and dedup.key or false,
    dedup and dedup['until'] or false, task.requires, task.max_charged, task.timeout, now,
  }
  set(K.tasks, no, cmsgpack.pack(defined[no]))
end

-- --- what stands in the way ---

-- The task that keeps the dedup key gets the payload, and the later time, of the one that came.
local function clash(task, no)
  local keeper = load(no)
  local definition = defined[no] or cmsgpack.unpack(call('HGET', K.tasks, no))
  local id, how = definition[1], task.dedup.clash
  known[task.id] = { no, id }
  local waits = not TERMINAL[keeper[STATE]] and keeper[STATE] ~= 'running'
  if how == 'keep' or not waits or definition[DEFINED_KIND] ~= task.kind then
    return { DUPLICATE, id }
  end
  definition[DEFINED_PAYLOAD] = task.payload
  defined[no] = definition
  set(K.tasks, no, cmsgpack.pack(definition))
  if how == 'debounce' and keeper[STATE] == 'pending' and (keeper[WAITS_FOR] or 0) == 0 then
    lift(no, keeper)
    keeper[RUN_AT] = math.max(keeper[RUN_AT], due_at(task))
    set_down(no, keeper)
  end
  return { CHANGED, id }
end

local function known_already(task)
  if known[task.id] then return { DUPLICATE, known[task.id][2] } end
  local dedup = task.dedup
  local keeper = dedup and (kept[dedup.key] or call('HGET', K.dedup, dedup.key))
  return keeper and clash(task, keeper)
end

local function too_deep(task, lane, row)
  local most = row[MAX_DEPTH]
  if not most then return end
  depths[lane] = depths[lane] or count_of(K.pending, lane) + count_of(K.queued, lane)
  if depths[lane] < most then return end
  return { REFUSED, 'lane ' .. task.lane .. ' is full: ' .. depths[lane]
    .. ' tasks wait, and its max depth is ' .. whole(most) }
end

local function held_key(task)
  if not task.refuse_if_held then return end
  for _, key in ipairs(task.keys) do
    if places_in(key) <= 0 then return { REFUSED, 'key ' .. key .. ' is held' } end
  end
end

-- --- what it depends on ---

local NOTHING = { waits = 0, tasks = {} }

-- Answers {waits: how many have not ended, doomed, refused, unknown: an id, tasks: [no, id] each}.
local function look_at_dependencies(task)
  if #task.depends_on == 0 then return NOTHING end
  local found, seen = { waits = 0, tasks = {} }, {}
  for _, id in ipairs(task.depends_on) do
    if refused[id] then return { refused = true } end
    if not known[id] then return { unknown = id } end
    local no = known[id][1]
    if not seen[no] then -- two names may stand for one task
      seen[no] = true
      table.insert(found.tasks, known[id])
      local state = load(no)[STATE]
      if not TERMINAL[state] then
        found.waits = found.waits + 1
      elseif state ~= 'completed' and task.on_failure == 'cancel' then
        found.doomed = true
      end
    end
  end
  return found
end

local function depend(no, life, needed, on_failure)
  local ids = {}
  for at, one in ipairs(needed.tasks) do
    local dependency = load(one[1])
    local waits = not needed.doomed and not TERMINAL[dependency[STATE]]
    ids[at] = one[2]
    put(K.dependents, one[2] .. '\0' .. (waits and 'u' or 'm') .. no)
    set_last(dependency, AWAITED, true)
    touch(one[1])
  end
  set(K.needs, no, cmsgpack.pack(ids))
  set_last(life, WAITS_FOR, needed.doomed and 0 or needed.waits)
  set_last(life, ON_FAILURE, on_failure)
end

-- --- saving ---

local function life_of(number, task, stream, needed)
  local dedup, run_at = task.dedup, due_at(task)
  local due = run_at <= now and needed.waits == 0
  return {
    due and 'queued' or 'pending', 'created', 0, 0, task.max_charged, 0,
    stream, task.priority, place_of(task.priority, number), #task.keys > 0 and task.keys,
    false, run_at, task.deadline or false, false, false, false, false,
    false, false, dedup and dedup.key or false, dedup and dedup['until'] or false,
  }
end

local function enter_queue(no, task, life, row)
  if row and row[ORDER] == 'fair' then set_last(life, GROUP, task.group) end
  if row then queue_up(no, life, turns_seen) end
  if not row or row[ORDER] ~= 'fifo' then life[PARKED_ON] = full_key(task) end
end

local function save(number, task, stream, row, needed)
  local no, life = as_text(number), life_of(number, task, stream, needed)
  define(no, task)
  set(K.ids, task.id, no)
  known[task.id] = { no, task.id }
  for _, key in ipairs(task.keys) do
    put(K.by_key, key .. '\0' .. no)
  end
  if needed ~= NOTHING then
    depend(no, life, needed, task.on_failure)
  elseif task.on_failure ~= 'cancel' then
    set_last(life, ON_FAILURE, task.on_failure)
  end
  if needed.doomed then
    life[STATE], life[REASON], life[ENDED_AT], life[DEDUP_KEPT] = 'cancelled', 'dependency', now, false
  elseif task.dedup then
    kept[task.dedup.key] = no
    set(K.dedup, task.dedup.key, no)
  end
  if life[STATE] == 'queued' then enter_queue(no, task, life, row) end
  set_down(no, life)
end

-- --- a call ---

-- The numbers of the tasks the call names: its own, and those they depend on.
local function look_up(tasks)
  local ids = {}
  for _, task in ipairs(tasks) do
    ids[#ids + 1] = task.id
    for _, id in ipairs(task.depends_on) do
      ids[#ids + 1] = id
    end
  end
  local needed = {}
  for at, no in ipairs(get_many(K.ids, ids)) do
    if no then
      known[ids[at]] = { no, ids[at] }
      needed[#needed + 1] = no
    end
  end
  if #ids > #tasks then load_many(needed) end
end

-- Answers '' if the task was saved, else why not; then the id of an unknown task it depends on.
local function enqueue_one(number, task)
  local there = known_already(task)
  if there then return there end
  local needed = look_at_dependencies(task)
  if needed.unknown then return nil, needed.unknown end
  if needed.refused then return { REFUSED, 'it depends on a task that was refused' } end
  local lane, special = lane_number(task.lane)
  local row = special and lane_row(lane)
  local why = (row and not needed.doomed and too_deep(task, lane, row)) or held_key(task)
  if why then return why end
  save(number, task, lane .. route_number(task.kind, task.requires), row, needed)
  if depths[lane] and not needed.doomed then depths[lane] = depths[lane] + 1 end
  return ''
end

-- Answers for each task, packed; or the id of an unknown one: then nothing must be written.
local function enqueue(tasks)
  look_up(tasks)
  local number, answers = numbers(#tasks), {}
  for at, task in ipairs(tasks) do
    local answer, unknown = enqueue_one(number + at, task)
    if unknown then return nil, unknown end
    answers[at] = answer
    refused[task.id] = answer[1] == REFUSED
  end
  return cmsgpack.pack(answers)
end
