-- claim.lua: take tasks that may run on this node now, in lane order, each under a new attempt.
-- uses: claiming
-- args: request

local claimed = claim(args[1])
commit()
return claimed
