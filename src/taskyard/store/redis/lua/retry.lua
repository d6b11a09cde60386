-- retry.lua: give a failed or cancelled task a new life with a full budget.
-- uses: current, lookup, orders, audit
-- KEYS results  HASH  no -> result
-- args: id, actor, states that may have a new life
-- Answers {found, state it was in, id of the task that keeps its dedup key now}.

local id, actor, allowed = args[1], args[2], args[3]
local no, task = find_task(id)
if not no then return { 0 } end

local before = task[STATE]
if not includes(allowed, before) then return { 1, before, '' } end

if task[DEDUP] then
  local keeper = call('HGET', K.dedup, task[DEDUP])
  if keeper then return { 1, before, ids_of({ keeper })[1] } end
  task[DEDUP_KEPT] = cmsgpack.unpack(call('HGET', K.tasks, no))[DEFINED_UNTIL]
  call('HSET', K.dedup, task[DEDUP], no)
end

lift(no, task)
task[STATE], task[REASON] = 'queued', 'operator'
task[CHARGED], task[LOSSES], task[RUN_AT] = 0, 0, now
task[PLACE] = with_seq(task[PLACE], numbers(1) + 1)
if task[WAITS_FOR] then task[WAITS_FOR] = 0 end
queue_up(no, task)
task[STARTED_AT], task[ENDED_AT], task[NODE], task[DEADLINE] = false, false, false, false
set_down(no, task)
call('HDEL', K.results, no)
audit(actor, 'retry', 'task:' .. id, 'was ' .. before)
commit()
return { 1, before, '' }
