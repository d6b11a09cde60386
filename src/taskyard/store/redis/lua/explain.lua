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
    nos[at] = member:sub(#key + 2)
  end
  return ids_of(nos)
end

local full = {}
for _, key in ipairs(task[KEY_NAMES]) do
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
    local free = node[SLOTS] - count_of(K.runs, format('%014x', lease))
    servers[#servers + 1] = cmsgpack.pack({ row[NODE_STATE], free })
  end
end

local ahead = task[STREAM] .. task[ROTA] .. '\0'
local before = range(K.ready, '[' .. ahead, '(' .. place(no, task), args[2])

return {
  whole(now), whole_tasks({ no }), lane_figures(task[STREAM]:sub(1, 8)),
  call('HGET', K.meta, 'paused') == '1' and 1 or 0, full, servers, #before,
}
