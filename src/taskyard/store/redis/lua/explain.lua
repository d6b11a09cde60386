-- explain.lua: the facts behind a task's waiting.
-- uses: current, lookup, reading, keys, figures, nodes, needing
-- args: id, how many tasks before it to count at most, how many unmet dependencies to name
-- Answers {now, whole task, lane, yard paused, keys, nodes, how many come before it, when the rate of
-- its lane has a token or false, ids of unmet dependencies, id of the head of a first in, first out
-- lane}; a key is packed [name, limit, holders' ids, when its rate has a token or false], a node packed
-- [state, free slots].

local no, task = find_task(args[1])
if not no then return false end

local function holders_of(key)
  local nos = all_of(K.held, key .. '\0')
  for at, member in ipairs(nos) do
    nos[at] = number_at(member)
  end
  return ids_of(nos)
end

-- When a rate has a token; false if it has one now.
local function opening(name, rate)
  return rate and tokens_in(name, rate) == 0 and opens_at(name, rate)
end

local full = {}
for _, key in ipairs(keys_of(task)) do
  if room_in(key) <= 0 then
    local opens = opening('k=' .. key, rate_of(key))
    full[#full + 1] = cmsgpack.pack({ key, limit_of(key), holders_of(key), opens or false })
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
  local lane, within = lane_of(task), stand(no, task):sub(17)
  local found, from = 0, '[' .. lane
  while found < most do
    local head = first(K.ready, from, '(' .. lane .. '\255')
    if not head then break end
    local stream = head:sub(1, 16)
    found = found + #range(K.ready, '[' .. stream, '(' .. stream .. within, most - found)
    from = '(' .. stream .. '\255'
  end
  return found
end

-- The first of all routes.
local function head_of(lane)
  local from, to, head = '[' .. lane, '(' .. lane .. '\255', nil
  while true do
    local member = first(K.ready, from, to)
    if not member then return head and ids_of({ number_at(head) })[1] end
    if not head or member:sub(17) < head:sub(17) then head = member end
    from = '(' .. member:sub(1, 16) .. '\255'
  end
end

local lane = lane_of(task)
local row = lane_row(lane)
return {
  whole(now), whole_tasks({ no }), lane_figures(lane), is_yard_paused() and 1 or 0, full, servers,
  count_before(tonumber(args[2])), cmsgpack.pack(opening('r=' .. lane, row[RATE]) or false),
  (task[WAITS_FOR] or 0) > 0 and unmet_of(no, args[3]) or {}, row[ORDER] == 'fifo' and head_of(lane) or false,
}
