-- pause_yard.lua: start nothing new in any lane, or go on.
-- uses: full, audit
-- args: paused, actor

call('HSET', K.meta, 'paused', args[1] and '1' or '0')
audit(args[2], args[1] and 'pause' or 'resume', 'yard', '')
hint()
write_all()
