-- tallies: figures by the hour.
-- uses: base
-- KEYS tallies  HASH  hour \0 kind \0 lane \0 what \0 class of times -> how many
-- KEYS hours    ZSET  the same names, in byte order; an hour is eight hexadecimal digits

local HOUR = 3600000000

local function hour_of(instant)
  return format('%08x', math.max(0, math.floor(instant / HOUR)))
end
