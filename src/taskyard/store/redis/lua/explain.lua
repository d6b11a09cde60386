-- explain.lua: the facts behind a task's waiting.
-- uses: lookup, reading, keys, figures, nodes
-- args: id, how many tasks before it to count at most
-- Answers {now, whole task, lane, yard paused, keys, nodes, how many come before it}; a key is
-- packed [name, limit, holders' ids], a node packed [state, free slots].

local no, task = find_task(args[1])
if not no then return false end

local function holders_of(key)
  local nos = all_of(K.held, key .. '\0')
  for at, member in ipairs(nos) do
    nos[at] = number_at(member)
  end
  return ids_of(nos)
end

local full = {}
for _, key in ipairs(keys_of(task)) do
  if room_in(key) <= 0 then
    full[#full + 1] = cmsgpack.pack({ key, limit_of(key), holders_of(key) })
  end
end

-- The live nodes that serve its route.
local servers = {}
local rows = call('HGETALL', K.leases)
for at = 1, #rows, 2 do
  local lease, row = tonumber(rows[at]), cmsgpack.unpack(rows[at + 1])
  local node = cmsgpack.unpack(call('HGET', K.nodes, rows[at]))
  if row[UNTIL] > now and not is_superseded(node[NODE_ID], lease)
    and routes_of(lease)[task[STREAM]:sub(9)] then
    local free = node[SLOTS] - count_of(K.runs, as_text(lease))
    servers[#servers + 1] = cmsgpack.pack({ row[NODE_STATE], free })
  end
end

-- The ready tasks of its lane before its place, whatever their routes.
local function count_before(most)
  local lane, within = task[STREAM]:sub(1, 8), place(no, task):sub(17)
  local found, from = 0, '[' .. lane
  while found < most do
    local head = first(K.ready, from, '(' .. lane .. '\255')
    if not head then break end
    local stream = head:sub(1, 16)
    local start = '[' .. stream .. task[ROTA] .. '\0'
    found = found + #range(K.ready, start, '(' .. stream .. within, most - found)
    from = '(' .. stream .. '\255'
  end
  return found
end

return {
  whole(now), whole_tasks({ no }), lane_figures(task[STREAM]:sub(1, 8)),
  call('HGET', K.meta, 'paused') == '1' and 1 or 0, full, servers,
  count_before(tonumber(args[2])),
}
