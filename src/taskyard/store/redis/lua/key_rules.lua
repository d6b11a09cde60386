-- key_rules.lua: the limits that differ from 1, as pattern, limit, …
-- uses: rules

local rules = call('HGETALL', K.key_rules)
for _, word in ipairs(call('HGETALL', K.key_prefixes)) do
  rules[#rules + 1] = word
end
return rules
