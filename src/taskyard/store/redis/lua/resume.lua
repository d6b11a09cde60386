-- resume.lua: let a paused task wait again where it stood, or take back the wish that it pause.
-- uses: current, full, lookup, orders, audit
-- args: id, actor, reason
-- Answers {found, what it was or '', state it was in}; nothing is changed if it was neither.

local id, actor, reason = args[1], args[2], args[3]
local no, task = find_task(id)
if not no then return { 0 } end

local before, was = task[STATE], ''
if before == 'running' and task[ASKED] == 'pause' then
  was, task[ASKED] = 'asked', false
  drop(K.asked, task[LEASE] .. no)
  touch(no)
  hint()
elseif before == 'paused' then
  was = 'paused'
  lift(no, task)
  task[REASON] = reason
  if (task[RUN_AT] or 0) > now or (task[WAITS_FOR] or 0) > 0 then
    task[STATE] = 'pending'
  else
    task[STATE] = 'queued'
    queue_up(no, task)
  end
  set_down(no, task)
else
  return { 1, '', before }
end
audit(actor, 'resume', 'task:' .. id, was)
commit()
return { 1, was, before }
