-- dependencies: what becomes of the tasks that depend on one that has ended.
-- uses: orders, members
-- built when needed
-- KEYS dependents  ZSET  id \0 phase no: who depends on the task with this id; phase u: it waits for
--                        its end, m: no longer
-- KEYS needs       HASH  no -> packed list of the ids it depends on

local function is_waiting_for_others(task)
  return (task[WAITS_FOR] or 0) > 0 and (task[STATE] == 'pending' or task[STATE] == 'paused')
end

-- The numbers of those who wait for the end of a task; they do no longer.
local function take_dependents(id)
  local nos = readable(K.dependents, all_of(K.dependents, id .. '\0u'))
  for _, no in ipairs(nos) do
    drop(K.dependents, id .. '\0u' .. no)
  end
  for _, no in ipairs(nos) do
    put(K.dependents, id .. '\0m' .. no)
  end
  return nos
end

local function count_down(no, task)
  if task[STATE] == 'pending' and task[WAITS_FOR] == 1 then
    lift(no, task)
    task[WAITS_FOR] = 0
    if (task[RUN_AT] or 0) <= now then
      task[STATE], task[REASON] = 'queued', 'dependency'
      queue_up(no, task)
    end
    set_down(no, task)
  else
    task[WAITS_FOR] = task[WAITS_FOR] - 1
    touch(no)
  end
end

local function cancel_dependent(no, task, because)
  lift(no, task)
  task[STATE], task[REASON], task[ENDED_AT] = 'cancelled', 'dependency', now
  free_dedup(task)
  set_down(no, task)
  audit('system', 'dependency', 'task:' .. ids_of({ no })[1], 'cancelled: ' .. because)
end

-- Lets those go on who waited for the end of a task, or cancels them, and so on with theirs.
local function tell_dependents(no, task)
  local ended, at = { { no, task } }, 1
  while ended[at] do
    no, task, at = ended[at][1], ended[at][2], at + 1
    if task[AWAITED] then
      local id, well = ids_of({ no })[1], task[STATE] == 'completed'
      for _, dependent in ipairs(take_dependents(id)) do
        local other = load(dependent)
        if not is_waiting_for_others(other) then
          -- It has ended, or an operator let it run all the same.
        elseif well or other[ON_FAILURE] == 'run' then
          count_down(dependent, other)
        else
          cancel_dependent(dependent, other, id .. ' ' .. task[STATE])
          ended[#ended + 1] = { dependent, other }
        end
      end
    end
  end
end
