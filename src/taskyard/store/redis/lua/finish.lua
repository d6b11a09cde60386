-- finish.lua: end these attempts and give their room back; a stale one changes nothing.
-- uses: full, ending
-- args: verdicts

local answers = finish(args[1])
commit()
return answers
