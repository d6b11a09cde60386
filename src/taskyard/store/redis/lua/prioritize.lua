-- prioritize.lua: change the place of a waiting task.
-- uses: current, full, lookup, keys, names, audit
-- args: id, priority, actor, states that wait
-- Answers {found, state it is in, whether it waits, its lane if that knows no priority}; one that
-- does not wait, or in such a lane, is not changed.

local id, priority, actor, waiting = args[1], args[2], args[3], args[4]
local no, task = find_task(id)
if not no then return { 0 } end

if not includes(waiting, task[STATE]) then return { 1, task[STATE], 0, false } end

local row, before, passed = lane_row(lane_of(task)), task[PRIORITY], {}
if row[ORDER] == 'fifo' then return { 1, task[STATE], 1, row[LANE_NAME] } end

-- In a fair lane only the place inside the group changes.
local function new_rank()
  local rank = rank_in(task[PLACE])
  if row[ORDER] == 'fair' then return rank end
  return row[AGEING] and rank + (priority - before) * row[AGEING][2] or priority
end

count_keys(passed, task)
lift(no, task)
-- One that is parked is looked at again: its place among the waiters has changed.
task[PRIORITY], task[PARKED_ON] = priority, false
if task[STATE] == 'queued' then task[PLACE] = with_rank(new_rank(), task[PLACE]) end
set_down(no, task)
wake(passed)
audit(actor, 'prioritize', 'task:' .. id, before .. ' to ' .. priority)
commit()
return { 1, task[STATE], 1, false }
