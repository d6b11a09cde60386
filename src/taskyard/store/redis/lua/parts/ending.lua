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

-- How plain tasks end that are completed and had this life, if they ran under this lease: their new
-- ending, and who of them leaves `runs`; else false.
local function completion_of(known, lease)
  local before = known.ending
  if before[ENDING_STATE] ~= 'running' then return false end
  if lease and before[ENDING_LEASE] ~= lease then return false end
  local started_at = before[ENDING_STARTED_AT]
  return {
    ending = ending_of('completed', 'finished', false, false, before[ENDING_NODE], started_at, now),
    run = before[ENDING_LEASE] .. (started_at and 's' or 'a'), runs = {}, n = 0,
  }
end

-- By their streams, and by how they ended.
local function leave_together(running, completions, sorted)
  for _, members in pairs(running) do
    members.sorted = sorted
    leave(K.running, members)
  end
  for _, done in pairs(completions) do
    if done then
      done.runs.sorted = sorted
      leave(K.runs, done.runs)
    end
  end
end

-- Completes those of these that are plain and ran under their attempts, as `end_attempt` does. Answers the
-- places of the others.
local function complete_many(verdicts, lives, freed)
  local lease = verdicts.lease ~= 0 and as_text(verdicts.lease)
  local nos, attempts, others = verdicts.nos, verdicts.attempts, verdicts.others
  local left, completions, running, last, sorted = {}, {}, {}, '', true
  local saved, completed, n, before, known, key, done, life = {}, {}, 0, nil, nil, nil, nil, nil
  for at = 1, #nos do
    local no = nos[at]
    if lives[at] ~= before then
      before = lives[at]
      known, key = recognized(before or '')
      done = known and completions[known.ending]
      if known and done == nil then
        done = completion_of(known, lease)
        completions[known.ending] = done
      end
      life = done and go_on(known, before, CHARGED_BYTE, done.ending)
    end
    if done and byte(before, ATTEMPT_BYTE) == attempts[at] and not others[at] then
      local stream = known.stream
      local of_state, of_stream = stream .. no, running[stream]
      if not of_stream then
        of_stream = { n = 0 }
        running[stream] = of_stream
      end
      of_stream.n, done.n = of_stream.n + 1, done.n + 1
      of_stream[of_stream.n], done.runs[done.n] = of_state, done.run .. no
      completed[n + 1], completed[n + 2], saved[n + 1], saved[n + 2] = '0', of_state, no, life
      n = n + 2
      if no < last then sorted = false end
      last = no
      if key then
        let_go_of(key, no)
        freed[key] = (freed[key] or 0) + 1
      end
    else
      left[#left + 1] = at
      packed_lives[no] = lives[at]
    end
  end
  leave_together(running, completions, sorted)
  hand_over(K.completed, 'ZADD', completed)
  set_all(K.lives, saved)
  if n > 0 then hint() end
  return left
end

-- The results of these, but for those at some places.
local function save_results(nos, results, left)
  local skipped, saved, n = {}, {}, 0
  for _, at in ipairs(left) do
    skipped[at] = true
  end
  for at = 1, #nos do
    if results[at] and not skipped[at] then
      saved[n + 1], saved[n + 2], n = nos[at], results[at], n + 2
    end
  end
  set_all(K.results, saved)
end

-- The whole verdict at this place.
local function verdict_at(verdicts, at)
  return verdicts.others[at] or {
    no = as_number(verdicts.nos[at]), attempt = verdicts.attempts[at], lease = verdicts.lease,
    state = 'completed', reason = 'finished', charge = 1, losses = 0,
    result = verdicts.results and verdicts.results[at],
  }
end

-- verdicts: {nos, attempts, results, others, lease}; results are false where there is none, and all
-- together if there is not one; others are those that are not simply completed under this lease, or on a
-- task that another is on too, by their place.
-- Packed, for each: true if it was applied as it is, the state if another one, false if stale; '' if all
-- were applied as they are.
local function finish(verdicts)
  local freed, answers, as_they_are, nos = {}, {}, true, verdicts.nos
  local left = complete_many(verdicts, get_many(K.lives, nos), freed)
  if verdicts.results then save_results(nos, verdicts.results, left) end
  for _, at in ipairs(left) do
    local verdict = verdict_at(verdicts, at)
    local task, wanted = accepted(verdict), verdict.state
    if task then end_attempt(nos[at], task, verdict, freed) end
    answers[at] = task and (verdict.state == wanted or verdict.state)
    if answers[at] ~= true then as_they_are = false end
  end
  if next(freed) then wake(freed) end -- else the part need not be built
  if as_they_are then return '' end
  for at = 1, #nos do
    if answers[at] == nil then answers[at] = true end
  end
  return cmsgpack.pack(answers)
end
