-- claiming: gives a node the tasks it may run now.
-- uses: full, rows, candidates, nodes
-- KEYS checkpoints  HASH  no -> JSON

-- A claim looks at so many sets of candidates at most; what it parks on the way stays parked, so
-- the next claim goes on where this one stopped.
local MAX_ROUNDS, MAX_SET = 8, 500

-- The first tasks of the only stream there is, if its lane goes by priority and has no rate: see rows.
local function first_of(stream, want, rooms, search)
  local lane = sub(stream, 1, 8)
  local row = lane_row(lane)
  if row[ORDER] ~= 'priority' or row[RATE] then return end
  return take_first(stream, want, rooms[lane], search)
end

-- One set of candidates; says whether another look could find more. Those who start at once come first.
local function look(search)
  local want = math.min(search.slots > 0 and search.slots or search.ahead, MAX_SET)
  local open = open_streams(search, want)
  if #open.streams == 0 then return false end
  if search.reach == 1 and #open.streams == 1 and not open.some then
    local more = first_of(open.streams[1], want, open.rooms, search)
    if more ~= nil then return more end
  end
  return take_candidates(search, open, want)
end

-- {nos as one text, lives, definitions, checkpoints}: see noting. The last list has no and text of those
-- there are.
local function describe(taken)
  local checkpoints = {}
  for _, no in ipairs(taken.checkpointed) do
    checkpoints[#checkpoints + 1] = no
    checkpoints[#checkpoints + 1] = call('HGET', K.checkpoints, no)
  end
  return { table.concat(taken), taken.lives, get_many(K.tasks, taken), checkpoints }
end

local function answer(now_taken, later_taken, more)
  return { '', more and 1 or 0, whole(now), describe(now_taken), describe(later_taken) }
end

-- What an earlier request with this number took.
local function again(lease, number)
  local started, ahead = {}, {}
  for _, no in ipairs(runs_under(lease)) do
    local task = load(no)
    if task[REQUEST] == number then
      local list = task[STARTED_AT] and started or ahead
      list[#list + 1] = no
    end
  end
  return answer(taken_before(started), taken_before(ahead), false)
end

local function refusal(id, lease, row)
  if row[UNTIL] <= now then return 'this lease has run out' end
  if is_superseded(id, lease) then return 'a newer incarnation of this node has registered' end
  if row[NODE_STATE] ~= 'ready' then return 'this node is ' .. row[NODE_STATE] end
  if is_yard_paused() then return 'the yard is paused' end
end

local function search_for(request, node, free, head)
  local search = {
    lease_text = as_text(request.lease), number = request.number, node = node,
    slots = math.max(0, math.min(request.room, free)), ahead = request.ahead,
    served = routes_of(request.lease), reach = 1, now = nobody(), later = nobody(), head = head,
  }
  local more = false
  for _ = 1, MAX_ROUNDS do
    if search.slots + search.ahead <= 0 then break end
    more = look(search)
    if not more then break end
  end
  if search.used_rates then tell_who_waits() end
  return search, more and search.slots > 0
end

-- Answers {why refused, more, the time, what starts at once, what is ahead}.
local function claim(request)
  local lease = request.lease
  local row = read_lease(lease)
  if not row then return { 'this lease has ended' } end
  if request.number <= row[LAST_REQUEST] then return again(lease, request.number) end
  local node = cmsgpack.unpack(call('HGET', K.nodes, whole(lease)))
  local refused = refusal(node[NODE_ID], lease, row)
  if refused then return { refused } end
  local head = first(K.ready, '-', '+')
  if not head then return answer(nobody(), nobody(), false) end
  local busy = count_of(K.runs, as_text(lease) .. 's')
  local search, more = search_for(request, node[NODE_ID], node[SLOTS] - busy, head)
  if search.now.n + search.later.n > 0 then
    row[LAST_REQUEST] = request.number
    write_lease(lease, row)
  end
  return answer(search.now, search.later, more)
end
