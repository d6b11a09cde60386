-- figures: a lane with what waits and runs in it.
-- uses: streams

-- Packed [running, queued, pending, and its settings].
local function lane_figures(lane)
  return cmsgpack.pack({ count_of(K.running, lane), count_of(K.queued, lane),
    count_of(K.pending, lane), unpack(lane_row(lane)) })
end
