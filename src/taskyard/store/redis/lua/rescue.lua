-- rescue.lua: take back the tasks of ended leases and of proven dead ones.
-- uses: full, ending, nodes, losing, names
-- args: proven dead leases, whether to look for ended ones, losses that make poison, the error
-- Answers {node, lease, packed runs} of each; a run is [no, id, attempt, charged, max_charged,
-- losses, started, asked] as it was.

local dead, ended, poison, lost = args[1], args[2], args[3], args[4]

local proven = {}
for _, lease in ipairs(dead) do
  proven[lease] = true
end

local function take_back(lease)
  local nos, runs, freed = runs_under(lease), {}, {}
  local ids, beside = ids_of(nos), any_beside(nos)
  for at, no in ipairs(nos) do
    local task = load(no)
    runs[at] = { as_number(no), ids[at], task[ATTEMPT], task[CHARGED], task[MAX_CHARGED],
      task[LOSSES], task[STARTED_AT] and true or false, task[ASKED] }
    local verdict = decide_lost(task, poison, beside)
    verdict.id = ids[at]
    verdict.error = verdict.losses > 0 and lost or nil
    end_attempt(no, task, verdict, freed)
  end
  wake(freed)
  return runs
end

local function ended_leases()
  local rows, found = call('HGETALL', K.leases), {}
  for at = 1, #rows, 2 do
    local lease = tonumber(rows[at])
    if proven[lease] or (ended and cmsgpack.unpack(rows[at + 1])[UNTIL] <= now) then
      found[#found + 1] = lease
    end
  end
  table.sort(found)
  return found
end

local rescued = {}
for at, lease in ipairs(ended_leases()) do
  local id = cmsgpack.unpack(call('HGET', K.nodes, whole(lease)))[NODE_ID]
  local runs = take_back(lease)
  forget_node(lease, id)
  if #runs > 0 then audit('system', 'rescue', 'node:' .. id, #runs .. ' tasks') end
  rescued[at] = { id, lease, cmsgpack.pack(runs) }
end
commit()
return rescued
