-- turn.lua: finish, then claim.
-- uses: ending, claiming
-- args: verdicts, request

local answers = finish(args[1])
local claimed = claim(args[2])
commit()
return { answers, claimed }
