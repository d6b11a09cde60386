-- set_cron.lua: keep an entry in place of one of its name; 0 if that one stays.
-- uses: current, crons
-- args: name, entry as it is kept, actor

local name, row, actor = args[1], args[2], args[3]
local before = read_cron(name)
if before then
  if before[LIKENESS] == row[LIKENESS] then return 0 end
  if row[DECLARED] and not before[DECLARED] then return 0 end
  row[LAST_AT] = before[LAST_AT]
end
write_cron(name, row)
audit(actor, 'set_cron', 'cron:' .. name, '')
return 1
