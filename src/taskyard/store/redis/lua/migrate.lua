-- migrate.lua: bring some tasks of an older layout into this one.
-- uses: full, nodes, rules
-- args: state, member of its index to go on behind or '', how many to look at, the version this leads
-- to, whether it is reached when no task of this state is left
-- Answers {where to go on or ''}, always '' once another program has reached the version: then workers
-- of that may run; {false, ids of nodes} while workers hold leases: those of an older program would
-- not understand what they find.

-- Lives of the third layout are read as they are, and written in this one with the next change: only
-- its workers would not understand those of this one.
-- Older layouts had the fields of a life in another order, that of AS_IT_WAS; the state was the first.
local AS_IT_WAS = {
  false, 3, 4, 6, 5, 8, 7, 9, 12, 10, 1, 2, 18, 19, 16, 14, 15, 11, 17, 13, 20, 21, 22, 23, 24, 25, 26,
}
-- The first layout had the group of a task where its priority is now, always empty; the priority in
-- two decimal digits before seq as its place; a byte 0 before the place in `ready` and `parked`; and
-- the rules of prefixes among those of keys.
local state, place, limit, version, is_last = args[1], args[2], args[3], args[4], args[5]
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

local function in_order(old)
  local task = { false }
  for at = 2, #old + 1 do
    task[at] = old[AS_IT_WAS[at]]
  end
  return task
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

if tonumber(call('HGET', K.meta, 'schema')) >= version then return { '' } end

local nodes = live_nodes()
if #nodes > 0 then return { false, nodes } end

local members = range(K[state], place == '' and '-' or '(' .. place, '+', limit)
local last, nos = #members == limit and members[#members] or '', {}
for at, member in ipairs(members) do
  nos[at] = number_at(member)
end
load_many(nos)
for _, no in ipairs(nos) do
  local task = packed_lives[no] and unpacked(packed_lives[no])
  if task and type(task[PLAIN]) == 'string' then
    task = in_order(task)
    loaded[no] = task
    touch(no)
    if #task[PLACE] == FIRST_PLACE then convert(no, task) end
  end
end
commit()
if last == '' and is_last then
  move_prefixes()
  call('HSET', K.meta, 'schema', version)
end
return { last }
