-- drop_cron.lua: forget an entry; 0 if there is none.
-- uses: current, full, crons
-- args: name, actor

if call('HDEL', K.crons, args[1]) == 0 then return 0 end
audit(args[2], 'drop_cron', 'cron:' .. args[1], '')
return 1
