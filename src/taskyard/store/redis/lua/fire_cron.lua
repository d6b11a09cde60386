-- fire_cron.lua: start a tick, if the entry still waits for it and is not paused.
-- uses: enqueuing, crons
-- args: name, the tick, tasks, the ticks they are of, the tick to wait for then or false
-- Answers as enqueue does, {} if the entry does not wait for the tick.

local name, due, tasks, ticks, next_at = args[1], args[2], args[3], args[4], args[5]
local row = read_cron(name)
if not row or row[CRON_PAUSED] or row[NEXT_AT] ~= due then return {} end

local answers, unknown = enqueue(tasks)
if unknown then return { false, unknown } end
row[NEXT_AT], row[LAST_AT] = next_at, ticks[#ticks] or row[LAST_AT]
write_cron(name, row)
commit()
return { answers }
