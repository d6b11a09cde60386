-- pause_yard.lua: start nothing new in any lane, perhaps until some moment, or go on.
-- uses: current, full, tasks, audit
-- args: paused, until or nil, actor

local paused, til, actor = args[1], args[2], args[3]
call('HSET', K.meta, 'paused', paused and (til and whole(til) or '1') or '0')
if paused and til then
  put(K.due, 'y=', whole(til))
else
  drop(K.due, 'y=')
end
audit(actor, paused and 'pause' or 'resume', 'yard', '')
hint()
write_all()
