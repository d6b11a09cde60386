-- expiring: fails waiting tasks whose deadline has passed.
-- uses: keys, dependencies
-- built when needed

-- All of them expire before those who depend on one of them are told: one of these may be late too.
local function expire_these(nos)
  local ids = ids_of(nos)
  for at, no in ipairs(nos) do
    local task = load(no)
    lift(no, task)
    task[STATE], task[REASON], task[ENDED_AT], task[PARKED_ON] = 'failed', 'expired', now, false
    free_dedup(task)
    set_down(no, task)
    audit('system', 'expired', 'task:' .. ids[at], 'deadline passed')
  end
  for _, no in ipairs(nos) do
    if load(no)[AWAITED] then tell_dependents(no, load(no)) end
  end
end
