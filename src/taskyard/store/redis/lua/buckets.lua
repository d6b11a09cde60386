-- buckets.lua: what has been taken of rates and is missing now.
-- uses: names
-- KEYS buckets  ZSET  see rates
-- Answers name of a key or a lane, when it is full, 1 if it is a lane, …

local found, answer = call('ZRANGEBYSCORE', K.buckets, '(' .. whole(now), '+inf', 'WITHSCORES'), {}
for at = 1, #found, 2 do
  local name, of_lane = found[at]:sub(3), found[at]:sub(1, 1) == 'r'
  answer[#answer + 1] = of_lane and lane_row(name)[LANE_NAME] or name
  answer[#answer + 1] = found[at + 1]
  answer[#answer + 1] = of_lane and 1 or 0
end
return answer
