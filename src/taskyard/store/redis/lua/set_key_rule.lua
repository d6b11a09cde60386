-- set_key_rule.lua: set the limit of a key or a prefix of keys; nil removes the rule.
-- uses: full, keys, audit
-- args: pattern, actor, limit

local pattern, actor, limit = args[1], args[2], args[3]
local before = {}
each_waited_key(function(key) before[key] = limit_of(key) end)
if limit then
  call('HSET', K.key_rules, pattern, whole(limit))
else
  call('HDEL', K.key_rules, pattern)
end
read_rules()
for key, old in pairs(before) do
  if limit_of(key) > old then wake_waiters(key, limit_of(key) - old) end
end
audit(actor, 'set_key_rule', 'key:' .. pattern, limit and 'limit ' .. whole(limit) or 'removed')
hint()
commit()
