-- claiming: gives a node the tasks it may run now.
-- uses: full, rows, turns, admission, expiring, nodes
-- KEYS checkpoints  HASH  no -> JSON

-- A claim looks at so many sets of candidates at most; what it parks on the way stays parked, so
-- the next claim goes on where this one stopped. Where much is parked the sets grow.
local MAX_ROUNDS, MAX_SET, MAX_WOKEN, GROWTH = 8, 500, 200, 4

-- Whether one task comes before another in the order of their lane.
local function comes_before(a, b)
  return place_in_lane(a) < place_in_lane(b)
end

local function queue_of(lane, queues, of_lane)
  if not of_lane[lane] then
    of_lane[lane] = { lane = lane, streams = {} }
    queues[#queues + 1] = of_lane[lane]
  end
  return of_lane[lane]
end

-- The first ready tasks of a stream, put behind those of its lane's other routes. Answers
-- whether there was more behind them.
local function gather(stream, limit, queue)
  local found, before = tasks_at(K.ready, '[' .. stream, '(' .. stream .. '\255', limit), #queue
  for at = 1, #found do
    queue[before + at] = found[at]
  end
  table.insert(queue.streams, stream)
  if #found < limit then return false end
  local last = found[#found]
  if not queue.horizon or comes_before(last, queue.horizon) then queue.horizon = last end
  return true
end

-- One lane's candidates in its order, as far as nothing unseen can come before them.
local function in_order(queue)
  if #queue.streams == 1 then return queue end
  table.sort(queue, comes_before)
  local seen = {}
  for _, no in ipairs(queue) do
    if queue.horizon and comes_before(queue.horizon, no) then break end
    seen[#seen + 1] = no
  end
  return seen
end

-- The head of a first in, first out lane and those behind it, as far as each is the head in turn.
local function heads(queue, served)
  local found = {}
  for at, no in ipairs(queue) do
    if not is_late(no) and not served[stream_of(no):sub(9)] then break end
    found[at] = no
  end
  return found
end

local function in_lanes_order(queue, served)
  local order, found = lane_row(queue.lane)[ORDER], in_order(queue)
  if order == 'fifo' then return heads(found, served) end
  if order == 'fair' then return take_turns(found, queue.streams) end
  return found
end

-- The lane whose turn it is, by its place among these: with each number that of another one. It is
-- still its turn in the next set of candidates, whoever has left.
local function turn_among(queues, search)
  if not search.turn then search.turn = queues[search.number % #queues + 1].lane end
  for at, queue in ipairs(queues) do
    if queue.lane >= search.turn then return at - 1 end
  end
  return 0
end

-- The heads of each lane in turn, and whether there was more behind them. Of each lane come no more
-- than its share: if some have less, there is another set.
local function find_candidates(found, want, search)
  local queues, of_lane, cut_short = {}, {}, found.some
  local share = math.ceil(want / found.lanes)
  for _, stream in ipairs(found.streams) do
    local lane = sub(stream, 1, 8)
    local fits = found.rooms[lane] and math.min(share, found.rooms[lane]) or share
    local limit = math.min(fits * search.reach, MAX_SET)
    if gather(stream, limit, queue_of(lane, queues, of_lane)) then cut_short = true end
  end
  local turn = found.some and 0 or turn_among(queues, search)
  for at, queue in ipairs(queues) do
    queues[at] = in_lanes_order(queue, search.served)
  end
  return interleave(queues, turn), cut_short
end

-- Splits those whose deadline has passed from the others.
local function take_out_late(found)
  local fine, late, carried = {}, {}, {}
  for _, no in ipairs(found) do
    if not glances[no] and is_late(no) then
      late[#late + 1] = no
      count_keys(carried, load(no))
    else
      fine[#fine + 1] = no
    end
  end
  return fine, late, carried
end

local function rooms_of_keys(found)
  local names, seen = {}, {}
  local function name(key)
    if not seen[key] then seen[key], names[#names + 1] = true, key end
  end
  for _, no in ipairs(found) do
    local known = glances[no]
    if not known then
      for _, key in ipairs(keys_of(load(no))) do
        name(key)
      end
    elseif carried[no] then
      name(carried[no])
    end
  end
  return #names > 0 and rooms_in(names) or {}
end

local function fifo_lanes(rooms)
  local lanes = {}
  for lane in pairs(rooms) do
    lanes[lane] = lane_row(lane)[ORDER] == 'fifo'
  end
  return lanes
end

-- Those behind them may have the same keys and move as they did: in sets that grow.
local function park(parked, each)
  local passed = {}
  for _, one in ipairs(parked) do
    local task = load(one.no)
    park_on(one.no, task, one.key)
    count_keys(passed, task, one.key)
  end
  wake(passed, each)
end

local function apply(taken, search)
  take_many(taken.now, search.now, search, now)
  take_many(taken.later, search.later, search, false)
  search.slots = search.slots - #taken.now
  search.ahead = search.ahead - #taken.later
  if #taken.parked > 0 then
    search.reach = search.reach * GROWTH
    park(taken.parked, math.min(search.reach, MAX_WOKEN))
  end
end

-- See rows.
local function go_no_further(taken, search, rooms)
  if #taken.now < MANY_ALIKE or #taken.later > 0 then return end
  for _, no in ipairs(taken.now) do
    if may_wait(no, rooms[lane_at(no)]) then return end
  end
  search.ahead = 0
end

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
  local rooms = open.rooms
  if search.reach == 1 and #open.streams == 1 and not open.some then
    local more = first_of(open.streams[1], want, rooms, search)
    if more ~= nil then return more end
  end
  local candidates, cut_short = find_candidates(open, want, search)
  local found, late, carried = take_out_late(candidates)
  expire_these(late)
  if next(carried) then
    wake(carried)
    return true -- whoever waited behind them comes before what follows
  end
  local room = {
    slots = search.slots, ahead = search.ahead, lanes = rooms, keys = rooms_of_keys(found),
    fifo = fifo_lanes(rooms),
  }
  local taken = admit(found, #found, room)
  local until_here = giving_way(taken.parked, room)
  if until_here then taken = admit(found, until_here, room) end
  go_no_further(taken, search, rooms)
  apply(taken, search)
  if #late > 0 or #taken.parked > 0 then return true end
  -- Tasks that may not be claimed ahead would be found again and again.
  return cut_short and #taken.now + #taken.later > 0
end

-- {nos as one text, lives, definitions, checkpoints}: see taking. The last list has no and text of those
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

local function taken_before(nos)
  local taken = nobody()
  table.sort(nos, comes_before)
  for _, no in ipairs(nos) do
    note_task(taken, no)
  end
  return taken
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

local function search_for(request, node, free)
  local search = {
    lease_text = as_text(request.lease), number = request.number, node = node,
    slots = math.max(0, math.min(request.room, free)), ahead = request.ahead,
    served = routes_of(request.lease), reach = 1, now = nobody(), later = nobody(),
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
  if not first(K.ready, '-', '+') then return answer(nobody(), nobody(), false) end
  local busy = count_of(K.runs, as_text(lease) .. 's')
  local search, more = search_for(request, node[NODE_ID], node[SLOTS] - busy)
  if search.now.n + search.later.n > 0 then
    row[LAST_REQUEST] = request.number
    write_lease(lease, row)
  end
  return answer(search.now, search.later, more)
end
