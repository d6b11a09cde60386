-- audit.lua: who did what, newest first.
-- uses: base
-- KEYS audit  STREAM  number-0 -> at, actor, action, subject, detail
-- args: limit, number of the last one seen or nil

local newest = args[2] and '(' .. whole(args[2]) .. '-0' or '+'
return call('XREVRANGE', K.audit, newest, '-', 'COUNT', args[1])
