-- prune_audit.lua: remove old lines of the audit trail; answers how many.
-- uses: full
-- KEYS audit  STREAM  number-0 -> at, actor, action, subject, detail
-- args: age in microseconds, how many of the first lines to look at

local cutoff, limit = now - args[1], args[2]
local old = {}
for _, entry in ipairs(call('XRANGE', K.audit, '-', '+', 'COUNT', limit)) do
  if tonumber(entry[2][2]) <= cutoff then old[#old + 1] = entry[1] end
end
in_chunks('XDEL', K.audit, old)
return #old
