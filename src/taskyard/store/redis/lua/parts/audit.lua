-- audit: who did what to which thing.
-- uses: base
-- KEYS audit  STREAM  number-0 -> at, actor, action, subject, detail
-- KEYS meta   HASH    counters

-- Answers the number of the line.
local function audit(actor, action, subject, detail)
  local number = call('HINCRBY', K.meta, 'audit', 1)
  call('XADD', K.audit, whole(number) .. '-0', 'at', whole(now), 'actor', actor,
    'action', action, 'subject', subject, 'detail', detail)
  return number
end
