-- prune_tallies.lua: remove old figures; answers how many.
-- uses: full, tallies
-- args: age in microseconds, how many to remove at most

local old = range(K.hours, '-', '(' .. hour_of(now - args[1]), args[2])
in_chunks('ZREM', K.hours, old)
in_chunks('HDEL', K.tallies, old)
return #old
