-- expire.lua: fail the waiting tasks whose deadline has passed; answers how many.
-- uses: full, expiring
-- args: limit

local nos = call('ZRANGEBYSCORE', K.deadlines, '-inf', whole(now), 'LIMIT', 0, args[1])
nos = readable(K.deadlines, nos)
local passed = {}
for _, no in ipairs(nos) do
  count_keys(passed, load(no))
end
expire_these(nos)
wake(passed)
commit()
return #nos
