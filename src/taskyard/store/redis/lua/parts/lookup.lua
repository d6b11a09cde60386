-- lookup: a task by the id its caller knows.
-- uses: tasks
-- KEYS ids  HASH  id -> no

local function find_task(id)
  local no = call('HGET', K.ids, id)
  return no, no and load(no)
end
