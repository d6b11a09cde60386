-- set_lane.lua: change a lane, making it if it is new; answers it.
-- uses: full, figures, audit
-- args: name, actor, capacity, paused, reason; a capacity or paused of '' stays as it is

local name, actor, capacity, paused, reason = args[1], args[2], args[3], args[4], args[5]
local lane = lane_number(name)
local row = lane_row(lane)
if capacity ~= '' then
  row[CAPACITY] = capacity or false
  audit(actor, 'set_capacity', 'lane:' .. name, capacity and whole(capacity) or 'None')
end
if paused ~= '' then
  row[PAUSED], row[PAUSED_REASON] = paused, reason or false
  audit(actor, paused and 'pause' or 'resume', 'lane:' .. name, reason or '')
end
call('HSET', K.lanes, lane, cmsgpack.pack(row))
hint()
commit()
return lane_figures(lane)
