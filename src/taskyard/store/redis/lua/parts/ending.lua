-- ending: ends attempts; the one place where room is given back.
-- uses: keys, dependencies
-- KEYS results   HASH  no -> result
-- KEYS failures  HASH  no -> packed list of [attempt, reason, at, started_at, node, error]

-- What the system did by itself is written down; the happy path is not.
local NOTED = { timeout = true, lost = true, poison = true, rescued = true }

-- Adds to a packed list without unpacking it: a five-byte head with the length, then the rows.
local function log_failure(no, task, reason, err)
  local row = cmsgpack.pack({ task[ATTEMPT], reason, now, task[STARTED_AT], task[NODE], err })
  local list = call('HGET', K.failures, no)
  local count = list and struct.unpack('>I4', list, 2) or 0
  local rows = list and list:sub(6) or ''
  call('HSET', K.failures, no, '\221' .. struct.pack('>I4', count + 1) .. rows .. row)
end

-- A task that was asked to stop does not come back by itself, however its body ended. One that is
-- paused keeps the delay it was to wait.
local function heed(verdict, asked)
  if not asked or TERMINAL[verdict.state] then return end
  verdict.reason = 'operator'
  if asked == 'cancel' then
    verdict.state, verdict.delay, verdict.keeps_place = 'cancelled', nil, false
  else
    verdict.state = 'paused'
  end
end

local function come_back(no, task, verdict)
  if not verdict.keeps_place then task[PLACE] = with_seq(task[PLACE], numbers(1) + 1) end
  if verdict.delay then
    task[RUN_AT] = now + math.floor(verdict.delay * 1000000 + 0.5)
    if verdict.delay <= 0 and task[STATE] == 'pending' then
      task[STATE], task[REASON] = 'queued', 'due'
    end
  end
  if task[STATE] == 'queued' and not verdict.keeps_place then queue_up(no, task) end
  task[STARTED_AT] = false
end

local function give_back(no, task, freed)
  if not task[KEY_NAMES] then return end
  for _, key in ipairs(task[KEY_NAMES]) do
    drop(K.held, key .. '\0' .. no)
  end
  count_keys(freed, task)
end

-- Applies a verdict to a running task. `freed` gathers the keys that got room: `wake` them when
-- all verdicts of the step are applied.
local function end_attempt(no, task, verdict, freed)
  heed(verdict, task[ASKED])
  if verdict.error then log_failure(no, task, verdict.reason, verdict.error) end
  lift(no, task)
  if task[ASKED] then drop(K.asked, task[LEASE] .. no) end
  task[STATE], task[REASON] = verdict.state, verdict.reason
  task[CHARGED] = task[CHARGED] + (verdict.state == 'completed' and 1 or verdict.charge)
  task[LOSSES] = task[LOSSES] + verdict.losses
  task[LEASE], task[REQUEST], task[ASKED] = false, false, false
  if TERMINAL[verdict.state] then
    task[ENDED_AT] = now
    free_dedup(task)
  else
    come_back(no, task, verdict)
  end
  set_down(no, task)
  if verdict.result then set(K.results, no, verdict.result) end
  if NOTED[verdict.reason] then
    audit('system', verdict.reason, 'task:' .. verdict.id, verdict.state)
  end
  give_back(no, task, freed)
  if task[AWAITED] and TERMINAL[verdict.state] then tell_dependents(no, task) end
end

-- For each verdict: true if it was applied as it is, the state if another one, false if stale.
local function finish(verdicts)
  local answers, freed, nos = {}, {}, {}
  for at, verdict in ipairs(verdicts) do
    nos[at] = as_text(verdict.no)
  end
  load_many(nos)
  for at, verdict in ipairs(verdicts) do
    local task = accepted(verdict)
    local wanted = verdict.state
    if task then end_attempt(nos[at], task, verdict, freed) end
    answers[at] = task and (verdict.state == wanted or verdict.state)
  end
  wake(freed)
  return answers
end
