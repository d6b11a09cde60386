-- clashing: an enqueue whose dedup key is kept by another task.
-- uses: tasks

-- What an enqueue is answered with: nothing was stored, or another task was changed, or it is refused.
local DUPLICATE, CHANGED, REFUSED = 'd', 'c', 'r'

local function due_at(task)
  if task.delay then return now + math.floor(task.delay * 1000000 + 0.5) end
  return task.run_at or now
end

-- The keeper gets the payload, and the later time, of the one that came. `defined` has the
-- definitions that are not written yet.
local function clash(task, no, defined)
  local keeper = load(no)
  local definition = defined[no] or cmsgpack.unpack(call('HGET', K.tasks, no))
  local id, how = definition[1], task.dedup.clash
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
