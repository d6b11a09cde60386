-- lanes.lua: all lanes with what waits and runs in them.
-- uses: figures

local answer = {}
for at, lane in ipairs(call('HVALS', K.lane_names)) do
  answer[at] = lane_figures(lane:sub(1, 8))
end
return answer
