-- cancel.lua: cancel a waiting task, or ask a running one to stop.
-- uses: current, full, lookup, keys, dependencies
-- args: id, actor, reason, states that may become cancelled
-- Answers {found, done or asked, state it was in}; nothing is changed in another state.

local id, actor, reason, allowed = args[1], args[2], args[3], args[4]
local no, task = find_task(id)
if not no then return { 0 } end

local before = task[STATE]
if not includes(allowed, before) then return { 1, '', before } end

local answer = 'cancelled'
if before == 'running' then
  task[ASKED] = 'cancel'
  put(K.asked, task[LEASE] .. no)
  touch(no)
  hint()
  answer = 'asked'
else
  local passed = {}
  count_keys(passed, task)
  lift(no, task)
  task[STATE], task[REASON], task[ENDED_AT], task[PARKED_ON] = 'cancelled', reason, now, false
  free_dedup(task)
  set_down(no, task)
  wake(passed)
end
audit(actor, 'cancel', 'task:' .. id, answer)
if task[ENDED_AT] then tell_dependents(no, task) end
commit()
return { 1, answer, before }
