-- figures: a lane with what waits and runs in it.
-- uses: streams

-- Packed [name, capacity, paused, reason, order, running, queued, pending].
local function lane_figures(lane)
  local row = { unpack(lane_row(lane)) }
  row[6] = count_of(K.running, lane)
  row[7] = count_of(K.queued, lane)
  row[8] = count_of(K.pending, lane)
  return cmsgpack.pack(row)
end
