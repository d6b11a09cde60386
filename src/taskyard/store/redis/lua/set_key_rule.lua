-- set_key_rule.lua: set limit and rate of a key or of each key with a prefix.
-- uses: full, keys, audit
-- args: pattern, actor, rule as text or nil to remove it, what the audit trail says of it

local pattern, actor, rule, detail = args[1], args[2], args[3], args[4]
local before = {}
each_waited_key(function(key) before[key] = room_in(key) end)
local key = home_of(pattern)
if rule then
  call('HSET', key, pattern, rule)
else
  call('HDEL', key, pattern)
end
forget_rules()
for waited, old in pairs(before) do
  local room, rate = room_in(waited), rate_of(waited)
  if room > old then wake_waiters(waited, room - old) end
  if rate then
    tell_waiters(waited, rate)
  else
    drop(K.due, 'k=' .. waited)
  end
end
audit(actor, 'set_key_rule', 'key:' .. pattern, detail)
hint()
commit()
