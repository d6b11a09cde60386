-- losing: what becomes of a task whose node died under it; the rule of domain/outcome.py.
-- uses: tasks

local function decide_lost(task, poison)
  local started = task[STARTED_AT] and 1 or 0
  local verdict = { state = 'queued', reason = 'rescued', charge = started, losses = started,
    keeps_place = true }
  if task[ASKED] == 'cancel' then
    verdict.state, verdict.reason = 'cancelled', 'operator'
  elseif started == 1 and task[LOSSES] + 1 >= poison then
    verdict.state, verdict.reason = 'failed', 'poison'
  elseif started == 1 and task[CHARGED] + 1 >= task[MAX_CHARGED] then
    verdict.state, verdict.reason = 'failed', 'lost'
  end
  verdict.keeps_place = verdict.state == 'queued'
  return verdict
end
