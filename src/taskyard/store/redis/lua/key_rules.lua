-- key_rules.lua: the limits that differ from 1, as pattern, limit, …
-- uses: base
-- KEYS key_rules  HASH  exact name, or prefix with * -> limit

return call('HGETALL', K.key_rules)
