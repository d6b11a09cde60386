-- import_tasks.lua: take tasks over as they are; what is here already stays.
-- uses: tasks, names
-- KEYS ids       HASH  id -> no
-- KEYS by_key    ZSET  key \0 no: which tasks name a key
-- KEYS results   HASH  no -> result
-- KEYS progress  HASH  no -> packed progress
-- KEYS failures  HASH  no -> packed list of failed attempts
-- args: rows of {no, seq, definition, life without its stream and rank, priority, result,
-- progress, failures}; the last three nil where there is none

-- As log_failure in parts/ending.lua keeps them.
local function failure_log(failures)
  local rows = {}
  for at, failure in ipairs(failures) do
    rows[at] = cmsgpack.pack(failure)
  end
  return '\221' .. struct.pack('>I4', #rows) .. table.concat(rows)
end

local ID, KIND, LANE, DEDUP_KEY, REQUIRES = 1, 2, 3, 6, 8

local function take(row)
  local no, definition, life = as_text(row.no), row.definition, row.life
  life[STREAM] = lane_number(definition[LANE]) .. route_number(definition[KIND], definition[REQUIRES])
  life[RANK] = rank_of(row.priority, row.seq)
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
