-- enqueuing: saves new tasks.
-- uses: keys, naming, clashing, depending
-- KEYS ids     HASH  id -> no
-- KEYS by_key  ZSET  key \0 no: which tasks name a key

local room, depths, turns_seen = {}, {}, {}
local defined, kept = {}, {} -- by this call: no -> definition, dedup key -> no
local known = {} -- id -> {no, id}
local instead, refused = {}, {} -- of this call: id -> the same of the one that was there; id -> true

-- Nothing of a call is written before `commit`, so it can be given up at any point.

-- The first of its keys that is full at this moment.
local function full_key(task)
  for _, key in ipairs(task[NEW_KEYS]) do
    if not room[key] then room[key] = room_in(key) end
    if room[key] <= 0 then return key end
  end
  return false
end

local function define(no, task)
  local dedup = task[NEW_DEDUP]
  defined[no] = {
    task[NEW_ID], task[NEW_KIND], task[NEW_LANE], task[NEW_PAYLOAD], task[NEW_GROUP],
    dedup and dedup.key or false,
    dedup and dedup['until'] or false, task[NEW_REQUIRES], task[NEW_MAX_CHARGED], task[NEW_TIMEOUT], now,
    task[NEW_TRACE],
  }
  set(K.tasks, no, cmsgpack.pack(defined[no]))
end

-- --- what stands in the way ---

local function known_already(task)
  if known[task[NEW_ID]] then return { DUPLICATE, known[task[NEW_ID]][2] } end
  local dedup = task[NEW_DEDUP]
  local keeper = dedup and (kept[dedup.key] or call('HGET', K.dedup, dedup.key))
  if not keeper then return end
  local answer = clash(task, keeper, defined)
  instead[task[NEW_ID]] = { keeper, answer[2] }
  return answer
end

local function too_deep(task, lane, row)
  local most = row[MAX_DEPTH]
  if not most then return end
  depths[lane] = depths[lane] or count_of(K.pending, lane) + count_of(K.queued, lane)
  if depths[lane] < most then return end
  return { REFUSED, 'lane ' .. task[NEW_LANE] .. ' is full: ' .. depths[lane]
    .. ' tasks wait, and its max depth is ' .. whole(most) }
end

local function held_key(task)
  if not task[NEW_REFUSE_IF_HELD] then return end
  for _, key in ipairs(task[NEW_KEYS]) do
    if places_in(key) <= 0 then return { REFUSED, 'key ' .. key .. ' is held' } end
  end
end

-- --- saving ---

local NOTHING = { waits = 0 }

local function life_of(number, task, stream, needed)
  local dedup, run_at = task[NEW_DEDUP], due_at(task)
  local due = run_at <= now and needed.waits == 0
  return {
    false, 0, 0, 0, task[NEW_MAX_CHARGED], task[NEW_PRIORITY],
    stream, place_of(task[NEW_PRIORITY], number), run_at ~= now and run_at,
    #task[NEW_KEYS] > 0 and task[NEW_KEYS],
    due and 'queued' or 'pending', 'created', false, false, false, false, false,
    false, false, task[NEW_DEADLINE] or false,
    dedup and dedup.key or false, dedup and dedup['until'] or false,
  }
end

local function enter_queue(no, task, life, row)
  if row and row[ORDER] == 'fair' then set_last(life, GROUP, task[NEW_GROUP]) end
  if row then queue_up(no, life, turns_seen) end
  if not row or row[ORDER] ~= 'fifo' then life[PARKED_ON] = full_key(task) end
end

local function save(number, task, stream, row, needed)
  local no, life = as_text(number), life_of(number, task, stream, needed)
  define(no, task)
  set(K.ids, task[NEW_ID], no)
  known[task[NEW_ID]] = { no, task[NEW_ID] }
  for _, key in ipairs(task[NEW_KEYS]) do
    put(K.by_key, key .. '\0' .. no)
  end
  if needed ~= NOTHING then
    depend(no, life, needed, task[NEW_ON_FAILURE])
  elseif task[NEW_ON_FAILURE] ~= 'cancel' then
    set_last(life, ON_FAILURE, task[NEW_ON_FAILURE])
  end
  if needed.doomed then
    life[STATE], life[REASON], life[ENDED_AT], life[DEDUP_KEPT] = 'cancelled', 'dependency', now, false
  elseif task[NEW_DEDUP] then
    kept[task[NEW_DEDUP].key] = no
    set(K.dedup, task[NEW_DEDUP].key, no)
  end
  if life[STATE] == 'queued' then enter_queue(no, task, life, row) end
  set_down(no, life)
end

-- --- a call ---

-- The numbers of the tasks the call names: its own, and those they depend on.
local function look_up(tasks)
  local ids = {}
  for _, task in ipairs(tasks) do
    ids[#ids + 1] = task[NEW_ID]
    for _, id in ipairs(task[NEW_DEPENDS_ON]) do
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

local function find(id)
  return known[id] or instead[id]
end

-- Answers '' if the task was saved, else why not; then the id of an unknown task it depends on.
local function enqueue_one(number, task)
  local there = known_already(task)
  if there then return there end
  local needed = #task[NEW_DEPENDS_ON] > 0 and look_at_dependencies(task, find, refused) or NOTHING
  if needed.unknown then return nil, needed.unknown end
  if needed.refused then return { REFUSED, 'it depends on a task that was refused' } end
  local lane, special = lane_number(task[NEW_LANE])
  local row = special and lane_row(lane)
  -- One that is given up at once waits for nothing, so nothing refuses it.
  local why = not needed.doomed and (row and too_deep(task, lane, row) or held_key(task))
  if why then return why end
  save(number, task, lane .. route_number(task[NEW_KIND], task[NEW_REQUIRES]), row, needed)
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
    refused[task[NEW_ID]] = answer[1] == REFUSED
  end
  return cmsgpack.pack(answers)
end
