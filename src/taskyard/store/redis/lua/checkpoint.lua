-- checkpoint.lua: keep what the next attempt may go on from; 0 if this is not the accepted one.
-- uses: full, tasks
-- KEYS checkpoints  HASH  no -> JSON
-- args: hold, text

local task = accepted(args[1])
if not task then return 0 end
local no = as_text(args[1].no)
call('HSET', K.checkpoints, no, args[2])
if not task[CHECKPOINTED] then
  set_last(task, CHECKPOINTED, true)
  touch(no)
  commit()
end
return 1
