-- retire.lua: end a lease; tasks that still run under it go back uncharged and in place.
-- uses: full, ending, nodes, names
-- args: lease

local lease = args[1]
local freed = {}
for _, no in ipairs(runs_under(lease)) do
  local verdict = { state = 'queued', reason = 'released', charge = 0, losses = 0,
    keeps_place = true }
  end_attempt(no, load(no), verdict, freed)
end
wake(freed)
local node = call('HGET', K.nodes, whole(lease))
if node then forget_node(lease, cmsgpack.unpack(node)[NODE_ID]) end
commit()
