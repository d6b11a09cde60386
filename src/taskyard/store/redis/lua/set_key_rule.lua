-- set_key_rule.lua: set limit and rate of a key or of each key with a prefix.
-- uses: current, full, keys, audit
-- args: pattern, actor, rule as text or nil to remove it, what the audit trail says of it

local pattern, actor, rule, detail = args[1], args[2], args[3], args[4]
local prefix = sub(pattern, -1) == '*' and sub(pattern, 1, -2)
-- The keys it names that somebody waits for, and those that tokens are missing from.
local concerned = {}
if prefix then
  for _, name in ipairs(call('ZRANGEBYSCORE', K.buckets, '(' .. whole(now), '+inf')) do
    if sub(name, 1, #prefix + 2) == 'k=' .. prefix then concerned[sub(name, 3)] = true end
  end
  each_waited_key(prefix, function(key) concerned[key] = true end)
else
  concerned[pattern] = true
end
local key = home_of(pattern)
if rule then
  call('HSET', key, pattern, rule)
else
  call('HDEL', key, pattern)
end
forget_rules()
for used in pairs(concerned) do
  local rate = rate_of(used)
  wake_waiters(used, limit_of(used)) -- those too whom a token has come for that they do not know of
  if rate then
    tell_waiters(used, rate)
  else
    drop(K.due, 'k=' .. used)
  end
end
audit(actor, 'set_key_rule', 'key:' .. pattern, detail)
hint()
commit()
