-- members: from members of an index to tasks.
-- uses: tasks, audit

-- The numbers of the tasks these members stand for. One whose state cannot be read would stop
-- whoever meets it, again and again: it leaves the index, and the audit trail tells.
local function readable(key, members)
  local nos, fine, n = {}, {}, 0
  for at = 1, #members do
    nos[at] = sub(members[at], -14)
  end
  load_many(nos)
  for at = 1, #nos do
    local no = nos[at]
    if glance(no) or load(no) then
      n = n + 1
      fine[n] = no
    else
      drop(key, members[at])
      audit('system', 'unreadable', 'task:' .. ids_of({ no })[1], 'its state cannot be read')
    end
  end
  return fine
end

-- The numbers of the first `count` tasks from one bound to another, and what stands there for them.
local function tasks_at(key, from, to, count)
  while true do
    local members = range(key, from, to, count)
    local nos = readable(key, members)
    if #nos == #members then return nos, members end
  end
end
