-- set_lane.lua: change a lane, making it if it is new.
-- uses: current, full, figures, naming, reordering, audit
-- args: name, actor, changes, most queued tasks that another order may concern. A change is a map with
-- some of capacity, max_depth, rate, order, ageing, paused, reason, until; false is none.
-- Answers {the lane}; or {false, queued} if there are too many: then nothing is changed.

local name, actor, change, most = args[1], args[2], args[3], args[4]
local lane = lane_number(name)
local row = lane_row(lane)
local subject = 'lane:' .. name

local function order_text(order, ageing)
  if order ~= 'priority' or not ageing then return order end
  return format('priority, ageing %g s', ageing[1])
end

local function set_pause()
  local paused, til = change.paused, change['until'] or false
  row[PAUSED], row[PAUSED_REASON], row[PAUSED_UNTIL] = paused, change.reason or false, paused and til
  if row[PAUSED_UNTIL] then
    put(K.due, 'p=' .. lane, whole(til))
  else
    drop(K.due, 'p=' .. lane)
  end
  audit(actor, paused and 'pause' or 'resume', subject, change.reason or '')
end

local function set_rate()
  local bucket_name, rate = 'r=' .. lane, change.rate
  row[RATE] = rate
  if rate then
    tell_of(bucket_name, rate, tokens_in(bucket_name, rate) == 0)
  else
    drop(K.due, bucket_name)
    drop(K.buckets, bucket_name)
  end
  audit(actor, 'set_rate', subject, rate and rate_text(rate) or 'None')
end

local before = order_text(row[ORDER], row[AGEING])
local order, ageing = row[ORDER], row[AGEING]
if change.order ~= nil then order = change.order end
if change.ageing ~= nil then ageing = change.ageing end
local other = order_text(order, ageing) ~= before
local queued = other and count_of(K.queued, lane) or 0
if queued > most then return { false, queued } end

if change.capacity ~= nil then
  row[CAPACITY] = change.capacity
  audit(actor, 'set_capacity', subject, row[CAPACITY] and whole(row[CAPACITY]) or 'None')
end
if change.max_depth ~= nil then
  row[MAX_DEPTH] = change.max_depth
  audit(actor, 'set_max_depth', subject, row[MAX_DEPTH] and whole(row[MAX_DEPTH]) or 'None')
end
if change.rate ~= nil then set_rate() end
row[ORDER], row[AGEING] = order, ageing
if change.order ~= nil or change.ageing ~= nil then
  audit(actor, 'set_order', subject, order_text(order, ageing))
end
if change.paused ~= nil then set_pause() end
write_lane(lane, row)
if other then reorder(lane) end
hint()
commit()
return { lane_figures(lane) }
