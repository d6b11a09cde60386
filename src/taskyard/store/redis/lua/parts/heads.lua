-- heads: the first tasks of first in, first out lanes.
-- uses: members, keys
-- built when needed

-- The first ready task of a lane, whatever its route.
local function head_of(lane)
  local head, from, to = nil, '[' .. lane, '(' .. lane .. '\255'
  while true do
    local no = tasks_at(K.ready, from, to, 1)[1]
    if not no then return head end
    if not head or place_in_lane(no) < place_in_lane(head) then head = no end
    from = '(' .. stream_of(no) .. '\255'
  end
end

-- Whether the head of such a lane leaves it if a claim looks at it.
local function head_goes(lane, served)
  local no = head_of(lane)
  if not no or is_late(no) then return no end
  if not served[sub(stream_of(no), 9)] then return false end
  for _, key in ipairs(keys_of(load(no))) do
    if room_in(key) <= 0 then return false end
  end
  return true
end
