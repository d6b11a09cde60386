-- migrate.lua: bring some tasks of the first layout into this one.
-- uses: full, nodes, rules
-- args: state, member of its index to go on behind or '', how many to look at, the version
-- reached when no task is left, or false
-- Answers {where to go on or ''}; {false, ids of nodes} while workers hold leases: those of an
-- older program would not understand what they find.

-- The first layout had the group of a task where its priority is now, always empty; the priority in
-- two decimal digits before seq as its place; a byte 0 before the place in `ready` and `parked`; and
-- the rules of prefixes among those of keys.
local state, place, limit, version = args[1], args[2], args[3], args[4]
local FIRST_PLACE = 16

local function live_nodes()
  local rows, ids = call('HGETALL', K.leases), {}
  for at = 1, #rows, 2 do
    if cmsgpack.unpack(rows[at + 1])[UNTIL] > now then
      ids[#ids + 1] = cmsgpack.unpack(call('HGET', K.nodes, rows[at]))[1]
    end
  end
  return ids
end

local function convert(no, task)
  local old = task[STREAM] .. '\0' .. task[PLACE] .. no
  local priority, seq = tonumber(task[PLACE]:sub(1, 2)), as_number(task[PLACE]:sub(3))
  if task[STATE] == 'queued' then
    drop(K.ready, old)
    if task[PARKED_ON] then drop(K.parked, task[PARKED_ON] .. '\0' .. old) end
  end
  task[PRIORITY], task[PLACE] = priority, place_of(priority, seq)
  set_down(no, task)
end

local function move_prefixes()
  local rules = call('HGETALL', K.key_rules)
  for at = 1, #rules, 2 do
    if home_of(rules[at]) == K.key_prefixes then
      call('HSET', K.key_prefixes, rules[at], rules[at + 1])
      call('HDEL', K.key_rules, rules[at])
    end
  end
end

local nodes = live_nodes()
if #nodes > 0 then return { false, nodes } end

local members = range(K[state], place == '' and '-' or '(' .. place, '+', limit)
local last, nos = #members == limit and members[#members] or '', {}
for at, member in ipairs(members) do
  nos[at] = number_at(member)
end
load_many(nos)
for _, no in ipairs(nos) do
  local task = load(no)
  if task and #task[PLACE] == FIRST_PLACE then convert(no, task) end
end
commit()
if last == '' and version then
  move_prefixes()
  call('HSET', K.meta, 'schema', version)
end
return { last }
