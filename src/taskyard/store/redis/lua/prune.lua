-- prune.lua: remove ended tasks in one state that have been kept long enough, the oldest first.
-- uses: current, full, dependencies, logs
-- KEYS ids       HASH  id -> no
-- KEYS by_key    ZSET  key \0 no: which tasks name a key
-- KEYS results   HASH  no -> result
-- KEYS progress  HASH  no -> packed progress
-- KEYS failures  HASH  no -> packed list of failed attempts
-- KEYS checkpoints  HASH  no -> JSON
-- args: state, {common, lanes, kinds: ages in microseconds}, most to look at, place to go on behind
-- or '', whether it is a dry run, actor, number of the run's line or nil, what the run has removed, how
-- many lines of logs may go before the rest is left to the next step
-- Answers {how many, place to go on behind or '' if there is no more, number of the line or 0}.

local state, ages, limit, place, dry_run = args[1], args[2], args[3], args[4], args[5]
local actor, line, removed, most_lines = args[6], args[7], args[8], args[9]
local index = K[state]

-- No index has the ended tasks by age: it would cost every task more than a hundred bytes. A number
-- is not behind the clock of its task's creation, so whatever has a number behind a time ended after
-- it; in each lane and route the tasks stand by their numbers, and the walk ends there. Numbers may be
-- ahead of the clock: by what a burst of tasks takes, or by far after the clock was set back. Then
-- everything is walked.
local AHEAD = 60000000
local PAST_ALL = 'g' -- comes after every hexadecimal digit
local BEFORE_ALL = '/' -- and before
local counter = tonumber(call('HGET', K.meta, 'seq') or 0)

local function last_number(cutoff)
  if counter > now + AHEAD then return PAST_ALL end
  return as_text(math.max(0, cutoff + AHEAD))
end

local function age_of(stream)
  local lane = cmsgpack.unpack(call('HGET', K.lanes, stream:sub(1, 8)))[LANE_NAME]
  local kind = cmsgpack.unpack(call('HGET', K.routes, stream:sub(9)))[1]
  return ages.kinds[kind] or ages.lanes[lane] or ages.common
end

local old = {}

-- Whether a task that has not ended depends on this one.
local function is_needed(no, task)
  if not task[AWAITED] then return false end
  for _, member in ipairs(all_of(K.dependents, ids_of({ no })[1] .. '\0')) do
    local dependent = load(number_at(member))
    if dependent and not TERMINAL[dependent[STATE]] then return true end
  end
  return false
end

-- Looks at no more than `count` tasks of a stream from this member on; answers where it stopped, or
-- nil if it has seen all that can be old. What goes is decided here alone.
local function look(stream, member, count)
  local cutoff = now - age_of(stream)
  local members = range(index, '[' .. member, '[' .. stream .. last_number(cutoff), count)
  local nos = {}
  for at, found in ipairs(members) do
    nos[at] = number_at(found)
  end
  load_many(nos)
  for _, no in ipairs(nos) do
    local task = load(no)
    if task and task[ENDED_AT] <= cutoff and not is_needed(no, task) then old[#old + 1] = no end
  end
  return #members, #members == count and members[count] or nil
end

local function walk()
  local from, left = place == '' and '-' or '(' .. place, limit
  while true do
    local member = first(index, from, '+')
    if not member then return '' end
    local stream = member:sub(1, 16)
    local seen, stopped = look(stream, member, left)
    if stopped then return stopped end
    left = left - math.max(seen, 1)
    if left <= 0 then return stream .. PAST_ALL end
    from = '(' .. stream .. PAST_ALL
  end
end

-- Forgets what this task depends on, and who depends on it.
local function untie(no, id)
  local packed = call('HGET', K.needs, no)
  for _, other in ipairs(packed and cmsgpack.unpack(packed) or {}) do
    drop(K.dependents, other .. '\0u' .. no)
    drop(K.dependents, other .. '\0m' .. no)
  end
  for _, member in ipairs(all_of(K.dependents, id .. '\0')) do
    drop(K.dependents, member)
  end
end

local function remove(nos)
  local ids = ids_of(nos)
  in_chunks('HDEL', K.ids, ids)
  for at, no in ipairs(nos) do
    local task = load(no)
    lift(no, task)
    for _, key in ipairs(keys_of(task)) do
      drop(K.by_key, key .. '\0' .. no)
    end
    if task[WAITS_FOR] or task[AWAITED] then untie(no, ids[at]) end
  end
  in_chunks('HDEL', K.tasks, nos)
  in_chunks('HDEL', K.lives, nos)
  in_chunks('HDEL', K.results, nos)
  in_chunks('HDEL', K.progress, nos)
  in_chunks('HDEL', K.failures, nos)
  in_chunks('HDEL', K.checkpoints, nos)
  in_chunks('HDEL', K.needs, nos)
end

-- Removes the lines of these tasks; answers those it has come to before there were too many.
local function without_lines(nos)
  local few, lines = {}, 0
  if call('EXISTS', K.logs) == 0 then return nos end
  for at, no in ipairs(nos) do
    if lines >= most_lines then break end
    lines = lines + drop_lines(no, no .. PAST_ALL)
    few[at] = no
  end
  return few
end

local stopped = walk()
if #old > 0 and not dry_run then
  local few = without_lines(old)
  if #few < #old then
    old, stopped = few, place == '' and BEFORE_ALL or place
  end
  remove(old)
  if line then call('XDEL', K.audit, whole(line) .. '-0') end
  line = audit(actor, 'prune', 'yard', whole(removed + #old))
  commit()
end
return { #old, stopped, line or 0 }
