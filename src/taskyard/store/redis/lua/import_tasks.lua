-- import_tasks.lua: take tasks over as they are; what is here already stays.
-- uses: naming, dependencies
-- KEYS ids       HASH  id -> no
-- KEYS by_key    ZSET  key \0 no: which tasks name a key
-- KEYS results   HASH  no -> result
-- KEYS progress  HASH  no -> packed progress
-- KEYS failures  HASH  no -> packed list of failed attempts
-- KEYS checkpoints  HASH  no -> JSON
-- args: rows of {no, seq, rank, definition, life without its stream and place, result, progress, failures,
-- checkpoint, depends_on, waits_for, unmet, on_failure}; nil or empty where there is none

-- As log_failure in parts/ending.lua keeps them.
local function failure_log(failures)
  local rows = {}
  for at, failure in ipairs(failures) do
    rows[at] = cmsgpack.pack(failure)
  end
  return '\221' .. struct.pack('>I4', #rows) .. table.concat(rows)
end

local ID, KIND, LANE, DEDUP_KEY, REQUIRES = 1, 2, 3, 6, 8

local numbers_here = {} -- id -> no, of this call

-- Those it depends on have come before it; one that is not here had ended and was pruned.
local function depend(no, ids, unmet)
  local waits = {}
  for _, id in ipairs(unmet) do
    waits[id] = true
  end
  for _, id in ipairs(ids) do
    local other = numbers_here[id] or call('HGET', K.ids, id)
    local dependency = other and load(other)
    put(K.dependents, id .. '\0' .. (waits[id] and 'u' or 'm') .. no)
    if dependency then
      set_last(dependency, AWAITED, true)
      touch(other)
    end
  end
  set(K.needs, no, cmsgpack.pack(ids))
end

local function take_extras(no, row, life)
  if #row.depends_on > 0 then
    set_last(life, WAITS_FOR, row.waits_for)
    depend(no, row.depends_on, row.unmet)
  end
  if #row.depends_on > 0 or row.on_failure ~= 'cancel' then
    set_last(life, ON_FAILURE, row.on_failure)
  end
  if row.checkpoint then
    set_last(life, CHECKPOINTED, true)
    set(K.checkpoints, no, row.checkpoint)
  end
end

local function take(row)
  local no, definition, life = as_text(row.no), row.definition, row.life
  local lane = lane_number(definition[LANE])
  life[STREAM] = lane .. route_number(definition[KIND], definition[REQUIRES])
  life[PLACE] = place_of(row.rank, row.seq)
  take_extras(no, row, life)
  if life[STATE] == 'queued' and lane_row(lane)[ORDER] == 'fair' then
    set_last(life, GROUP, definition[DEFINED_GROUP])
  end
  numbers_here[definition[ID]] = no
  set(K.ids, definition[ID], no)
  set(K.tasks, no, cmsgpack.pack(definition))
  for _, key in ipairs(keys_of(life)) do
    put(K.by_key, key .. '\0' .. no)
  end
  if life[DEDUP_KEPT] then call('HSET', K.dedup, definition[DEDUP_KEY], no) end
  if row.result then set(K.results, no, row.result) end
  if row.progress then set(K.progress, no, cmsgpack.pack(row.progress)) end
  if #row.failures > 0 then set(K.failures, no, failure_log(row.failures)) end
  set_down(no, life)
end

local last = tonumber(call('HGET', K.meta, 'seq') or 0)
for _, row in ipairs(args[1]) do
  if call('HEXISTS', K.ids, row.definition[ID]) == 0 then take(row) end
  last = math.max(last, row.no, row.seq)
end
-- What comes next comes behind them.
call('HSET', K.meta, 'seq', whole(last))
commit()
