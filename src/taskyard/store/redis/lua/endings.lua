-- endings.lua: those of these tasks that have ended.
-- uses: current, tasks
-- KEYS ids       HASH  id -> no
-- KEYS results   HASH  no -> result
-- KEYS failures  HASH  no -> packed list of failed attempts
-- args: ids
-- Answers {ids, states, results, failures}, one list each; failures of those that failed.

local ids, nos = {}, {}
for at, no in ipairs(get_many(K.ids, args[1])) do
  if no then ids[#ids + 1], nos[#nos + 1] = args[1][at], no end
end
load_many(nos)

local ended, states, found, failed = {}, {}, {}, {}
for at, no in ipairs(nos) do
  local task = load(no)
  if task and task[ENDED_AT] then
    ended[#ended + 1], states[#states + 1], found[#found + 1] = ids[at], task[STATE], no
    failed[#failed + 1] = task[STATE] == 'failed' and call('HGET', K.failures, no)
  end
end
return { ended, states, get_many(K.results, found), failed }
