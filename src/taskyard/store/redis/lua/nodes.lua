-- nodes.lua: all nodes that hold a lease or have not been rescued yet.
-- uses: nodes
-- Answers {now, lease, packed definition, packed lease, running, …}.

local answer = { whole(now) }
local rows = call('HGETALL', K.leases)
for at = 1, #rows, 2 do
  local lease = rows[at]
  answer[#answer + 1] = lease
  answer[#answer + 1] = call('HGET', K.nodes, lease)
  answer[#answer + 1] = rows[at + 1]
  answer[#answer + 1] = count_of(K.runs, as_text(lease))
end
return answer
