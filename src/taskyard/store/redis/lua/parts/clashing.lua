-- clashing: an enqueue whose dedup key is kept by another task.
-- uses: tasks

-- Where in a new task these are; the order is that of NewTask in domain/task.py.
local NEW_KIND, NEW_PAYLOAD, NEW_ID, NEW_LANE, NEW_PRIORITY, NEW_KEYS = 1, 2, 3, 4, 5, 6
local NEW_GROUP, NEW_DEDUP, NEW_REFUSE_IF_HELD, NEW_DEPENDS_ON, NEW_ON_FAILURE = 7, 8, 9, 10, 11
local NEW_REQUIRES, NEW_MAX_CHARGED, NEW_TIMEOUT, NEW_RUN_AT, NEW_DELAY = 12, 13, 14, 15, 16
local NEW_DEADLINE, NEW_TRACE = 17, 18

-- What an enqueue is answered with: nothing was stored, or another task was changed, or it is refused.
local DUPLICATE, CHANGED, REFUSED = 'd', 'c', 'r'

local function due_at(task)
  if task[NEW_DELAY] then return now + math.floor(task[NEW_DELAY] * 1000000 + 0.5) end
  return task[NEW_RUN_AT] or now
end

-- The keeper gets the payload, the trace, and the later time, of the one that came. `defined` has the
-- definitions that are not written yet.
local function clash(task, no, defined)
  local keeper = load(no)
  local definition = defined[no] or cmsgpack.unpack(call('HGET', K.tasks, no))
  local id, how = definition[1], task[NEW_DEDUP].clash
  local waits = not TERMINAL[keeper[STATE]] and keeper[STATE] ~= 'running'
  if how == 'keep' or not waits or definition[DEFINED_KIND] ~= task[NEW_KIND] then
    return { DUPLICATE, id }
  end
  definition[DEFINED_PAYLOAD], definition[DEFINED_TRACE] = task[NEW_PAYLOAD], task[NEW_TRACE]
  defined[no] = definition
  set(K.tasks, no, cmsgpack.pack(definition))
  if how == 'debounce' and keeper[STATE] == 'pending' and (keeper[WAITS_FOR] or 0) == 0 then
    lift(no, keeper)
    keeper[RUN_AT] = math.max(keeper[RUN_AT] or 0, due_at(task))
    set_down(no, keeper)
  end
  return { CHANGED, id }
end
