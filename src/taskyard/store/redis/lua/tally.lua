-- tally.lua: add these to the figures of this hour.
-- uses: tallies
-- args: names without the hour, and how many of each

local names, counts, hour = args[1], args[2], hour_of(now)
for at, name in ipairs(names) do
  local row = hour .. '\0' .. name
  if call('HINCRBY', K.tallies, row, whole(counts[at])) == counts[at] then put(K.hours, row) end
end
write_all()
