-- set_key_rule.lua: set limit and rate of a key or of each key with a prefix.
-- uses: full, keys, audit
-- args: pattern, actor, rule as text or nil to remove it, what the audit trail says of it

local pattern, actor, rule, detail = args[1], args[2], args[3], args[4]
-- The room before, of keys somebody waits for; false of others that tokens are missing from.
local before = {}
for _, name in ipairs(call('ZRANGEBYSCORE', K.buckets, '(' .. whole(now), '+inf')) do
  if sub(name, 1, 2) == 'k=' then before[sub(name, 3)] = false end
end
each_waited_key(function(key) before[key] = room_in(key) end)
local key = home_of(pattern)
if rule then
  call('HSET', key, pattern, rule)
else
  call('HDEL', key, pattern)
end
forget_rules()
for used, old in pairs(before) do
  local room, rate = room_in(used), rate_of(used)
  if old and room > old then wake_waiters(used, room - old) end
  if rate then
    tell_waiters(used, rate)
  else
    drop(K.due, 'k=' .. used)
  end
end
audit(actor, 'set_key_rule', 'key:' .. pattern, detail)
hint()
commit()
