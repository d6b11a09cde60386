-- get.lua: everything about one task.
-- uses: current, reading, lookup
-- args: id

local no = call('HGET', K.ids, args[1])
return whole_tasks({ no or nil })
