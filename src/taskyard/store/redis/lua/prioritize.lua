-- prioritize.lua: change the place of a waiting task.
-- uses: full, lookup, keys, audit
-- args: id, priority, actor, states that wait
-- Answers {found, state it is in, whether it waits}; one that does not wait is not changed.

local id, priority, actor, waiting = args[1], args[2], args[3], args[4]
local no, task = find_task(id)
if not no then return { 0 } end

if not includes(waiting, task[STATE]) then return { 1, task[STATE], 0 } end

local before, passed = tonumber(task[RANK]:sub(1, 2)), {}
count_keys(passed, task)
lift(no, task)
-- One that is parked is looked at again: its place among the waiters has changed.
task[RANK], task[PARKED_ON] = format('%02d', priority) .. task[RANK]:sub(3), false
set_down(no, task)
wake(passed)
audit(actor, 'prioritize', 'task:' .. id, before .. ' to ' .. priority)
commit()
return { 1, task[STATE], 1 }
