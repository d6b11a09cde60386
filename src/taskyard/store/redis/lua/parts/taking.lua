-- taking: tasks become those of a node, with the room they use.
-- uses: streams, keys, noting
-- built when needed

-- One that may have a checkpoint; no plain one has.
local function note_task(taken, no)
  if load(no)[CHECKPOINTED] then table.insert(taken.checkpointed, no) end
  note_taken(taken, no, pack_up(no))
end

local function use_rate(search, name, rate)
  if rate then
    take_token(name, rate)
    search.used_rates = true
  end
end

-- Whoever waits for a rate that was used is told when there is a token more. A token of a key that
-- came meanwhile, and is still there, is one that nobody has been told of: that moment stays.
local function tell_who_waits()
  each_used(function(name, rate)
    if tokens_in(name, rate) == 0 then
      tell_of(name, rate, true)
    elseif name:sub(1, 2) == 'k=' and is_waited_for(name:sub(3)) then
      call('ZADD', K.due, 'LT', whole(opens_at(name, rate)), name)
    end
  end)
end

local function hold_key(key, no, search)
  put(K.held, key .. '\0' .. no)
  local rate = rate_of(key)
  if rate then use_rate(search, 'k=' .. key, rate) end
end

local function take(no, search, started_at)
  local task = load(no)
  lift(no, task)
  task[STATE], task[REASON], task[ATTEMPT] = 'running', 'claimed', task[ATTEMPT] + 1
  task[LEASE], task[REQUEST], task[NODE] = search.lease_text, search.number, search.node
  task[STARTED_AT] = started_at
  if task[DEDUP_KEPT] == 'start' then free_dedup(task) end
  set_down(no, task)
  use_rate(search, 'r=' .. lane_of(task), lane_row(lane_of(task))[RATE])
  for _, key in ipairs(keys_of(task)) do
    hold_key(key, no, search)
  end
end

-- What leaves the indexes of a stream, and what its tasks use of a rate.
local function lists_of(known)
  local rate = lane_row(known.lane)[RATE]
  return { ready = {}, queued = {}, n = 0, rate = rate, name = 'r=' .. known.lane }
end

-- The same for those that are plain, together.
local function take_many(nos, taken, search, started_at)
  local ending, of_streams = ending_when_taken(search, started_at), {}
  local run = search.lease_text .. (started_at and 's' or 'a')
  local running, runs, lives, n = {}, {}, {}, 0
  for at = 1, #nos do
    local no = nos[at]
    local known = glances[no]
    if known then
      local stream, life = known.stream, go_on(known, packed_lives[no], ATTEMPT_BYTE, ending)
      local of_stream, of_state = of_streams[stream] or lists_of(known), stream .. no
      local count = of_stream.n + 1
      of_streams[stream], of_stream.n = of_stream, count
      of_stream.ready[count], of_stream.queued[count] = stream .. place_in_lane(no) .. no, of_state
      running[n + 1], running[n + 2], runs[n + 1], runs[n + 2] = '0', of_state, '0', run .. no
      lives[n + 1], lives[n + 2] = no, life
      packed_lives[no], loaded[no], glances[no], n = life, nil, nil, n + 2
      note_taken(taken, no, life)
      if carried[no] then hold_key(carried[no], no, search) end
      if of_stream.rate then use_rate(search, of_stream.name, of_stream.rate) end
    else
      take(no, search, started_at)
      note_task(taken, no)
    end
  end
  for _, of_stream in pairs(of_streams) do
    hand_over(K.ready, 'TAKE_OUT', of_stream.ready)
    hand_over(K.queued, 'TAKE_OUT', of_stream.queued)
  end
  hand_over(K.running, 'ZADD', running)
  hand_over(K.runs, 'ZADD', runs)
  set_all(K.lives, lives)
end
