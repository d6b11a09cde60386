-- tallied.lua: some of what was added since the hour of a moment.
-- uses: tallies
-- args: the moment, name of the last one seen or '', how many
-- Answers {names, counts}.

local from = args[2] == '' and '[' .. hour_of(args[1]) or '(' .. args[2]
local names = range(K.hours, from, '+', args[3])
return { names, get_many(K.tallies, names) }
