-- losing: what becomes of the tasks whose node died under them; the rule of domain/outcome.py.
-- uses: tasks
-- built when needed

-- Whether one of these runs was no suspect: where it ran beside suspects, it is to blame.
local function any_beside(nos)
  for _, no in ipairs(nos) do
    local task = load(no)
    if task[STARTED_AT] and task[LOSSES] == 0 then return true end
  end
  return false
end

local function decide_lost(task, poison, beside)
  local blamed = task[STARTED_AT] and not (beside and task[LOSSES] > 0)
  local charge = blamed and 1 or 0
  local verdict = { state = 'queued', reason = 'rescued', charge = charge, losses = charge }
  if task[ASKED] == 'cancel' then
    verdict.state, verdict.reason = 'cancelled', 'operator'
  elseif blamed and task[LOSSES] + 1 >= poison then
    verdict.state, verdict.reason = 'failed', 'poison'
  elseif blamed and task[CHARGED] + 1 >= task[MAX_CHARGED] then
    verdict.state, verdict.reason = 'failed', 'lost'
  elseif task[ASKED] == 'pause' then
    verdict.state, verdict.reason = 'paused', 'operator'
  end
  verdict.keeps_place = not TERMINAL[verdict.state]
  return verdict
end
