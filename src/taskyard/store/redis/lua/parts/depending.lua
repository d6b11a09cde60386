-- depending: a new task that depends on others.
-- uses: dependencies
-- built when needed

-- Answers {waits: how many have not ended, doomed, refused, unknown: an id, tasks: [no, id] each}.
-- `find` answers such a pair for an id, `refused` has those of the same call that were refused.
local function look_at_dependencies(task, find, refused)
  local found, seen = { waits = 0, tasks = {} }, {}
  for _, id in ipairs(task[NEW_DEPENDS_ON]) do
    if refused[id] then return { refused = true } end
    local one = find(id)
    if not one then return { unknown = id } end
    local no = one[1]
    if not seen[no] then -- two names may stand for one task
      seen[no] = true
      table.insert(found.tasks, one)
      local state = load(no)[STATE]
      if not TERMINAL[state] then
        found.waits = found.waits + 1
      elseif state ~= 'completed' and task[NEW_ON_FAILURE] == 'cancel' then
        found.doomed = true
      end
    end
  end
  return found
end

local function depend(no, life, needed, on_failure)
  local ids = {}
  for at, one in ipairs(needed.tasks) do
    local dependency = load(one[1])
    local waits = not needed.doomed and not TERMINAL[dependency[STATE]]
    ids[at] = one[2]
    put(K.dependents, one[2] .. '\0' .. (waits and 'u' or 'm') .. no)
    set_last(dependency, AWAITED, true)
    touch(one[1])
  end
  set(K.needs, no, cmsgpack.pack(ids))
  set_last(life, WAITS_FOR, needed.doomed and 0 or needed.waits)
  set_last(life, ON_FAILURE, on_failure)
end
