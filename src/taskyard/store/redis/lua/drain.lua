-- drain.lua: claim nothing more under this lease; what runs goes on.
-- uses: full, nodes
-- args: lease

local row = read_lease(args[1])
if row then
  row[NODE_STATE] = 'draining'
  write_lease(args[1], row)
end
