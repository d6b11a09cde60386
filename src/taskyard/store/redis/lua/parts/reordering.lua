-- reordering: another order for what waits in a lane already.
-- uses: orders
-- built when needed

local function members_in(index, lane)
  local nos = all_of(index, lane)
  for at, member in ipairs(nos) do
    nos[at] = number_at(member)
  end
  load_many(nos)
  table.sort(nos, function(a, b) return load(a)[PLACE] < load(b)[PLACE] end)
  return nos
end

-- What runs may come back in place: its place is one of the new order too. In a fair lane it
-- takes no round from those who wait.
local function reorder_running(lane, row)
  for _, no in ipairs(members_in(K.running, lane)) do
    local task = load(no)
    queue_up(no, task)
    if row[ORDER] == 'fair' then task[PLACE] = with_rank(0, task[PLACE]) end
    touch(no)
  end
end

-- The lane has its new order already; those who wait keep to their old one where the new one does
-- not tell. In a first in, first out lane nothing is parked.
local function reorder(lane)
  local row, nos, seen = lane_row(lane), members_in(K.queued, lane), {}
  for _, no in ipairs(nos) do
    lift(no, load(no))
  end
  for _, no in ipairs(nos) do
    local task = load(no)
    if row[ORDER] == 'fifo' then task[PARKED_ON] = false end
    queue_up(no, task, seen)
    set_down(no, task)
  end
  reorder_running(lane, row)
end
