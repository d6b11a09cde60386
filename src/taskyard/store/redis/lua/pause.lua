-- pause.lua: pause a waiting task, or ask a running one to pause.
-- uses: current, full, lookup, keys, audit
-- args: id, actor, reason, states that may become paused
-- Answers {found, done or asked, state it was in}; nothing is changed in another state.

local id, actor, reason, allowed = args[1], args[2], args[3], args[4]
local no, task = find_task(id)
if not no then return { 0 } end

local before = task[STATE]
if not includes(allowed, before) then return { 1, '', before } end

local answer = 'paused'
if before == 'running' then
  task[ASKED] = task[ASKED] or 'pause' -- who is to be cancelled need not pause
  put(K.asked, task[LEASE] .. no)
  touch(no)
  hint()
  answer = 'asked'
else
  local passed = {}
  count_keys(passed, task)
  lift(no, task)
  task[STATE], task[REASON], task[PARKED_ON] = 'paused', reason, false
  set_down(no, task)
  wake(passed)
end
audit(actor, 'pause', 'task:' .. id, answer)
commit()
return { 1, answer, before }
