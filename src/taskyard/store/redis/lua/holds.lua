-- holds.lua: packed [no, attempt] of everything that runs under a lease.
-- uses: nodes
-- args: lease

local holds = {}
for at, no in ipairs(runs_under(args[1])) do
  holds[at] = { as_number(no), load(no)[ATTEMPT] }
end
return cmsgpack.pack(holds)
