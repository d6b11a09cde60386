-- nodes.lua: all nodes that hold a lease or have not been rescued yet.
-- uses: nodes
-- Answers {now, lease, packed definition, packed lease, running, …}.

local answer = { whole(now) }
local rows = call('HGETALL', K.leases)
local leases = {}
for at = 1, #rows, 2 do
  leases[#leases + 1] = rows[at]
end
for at, definition in ipairs(get_many(K.nodes, leases)) do
  local lease = leases[at]
  answer[#answer + 1] = lease
  answer[#answer + 1] = definition
  answer[#answer + 1] = rows[2 * at]
  answer[#answer + 1] = count_of(K.runs, as_text(lease))
end
return answer
