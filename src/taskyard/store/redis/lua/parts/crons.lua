-- crons: periodic tasks.
-- uses: base, audit
-- KEYS crons  HASH  name -> packed [entry as JSON, what it is compared by, declared, paused, next_at,
--                   last_at]

local CRON, LIKENESS, DECLARED, CRON_PAUSED, NEXT_AT, LAST_AT = 1, 2, 3, 4, 5, 6

local function read_cron(name)
  local packed = call('HGET', K.crons, name)
  return packed and cmsgpack.unpack(packed)
end

local function write_cron(name, row)
  call('HSET', K.crons, name, cmsgpack.pack(row))
end
