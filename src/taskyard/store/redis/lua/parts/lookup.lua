-- lookup: a task by the id its caller knows.
-- uses: tasks
-- KEYS ids  HASH  id -> no

local function find_task(id)
  local no = call('HGET', K.ids, id)
  local task = no and load(no)
  if no and not task then error('UNREADABLE: the state of task ' .. id) end
  return no, task
end
