-- report.lua: keep how far an attempt has come; 0 if it is no longer the accepted one.
-- uses: full, tasks
-- KEYS progress  HASH  no -> packed progress
-- args: hold, progress

if not accepted(args[1]) then return 0 end
call('HSET', K.progress, as_text(args[1].no), cmsgpack.pack(args[2]))
return 1
