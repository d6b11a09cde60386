-- orders: the rank of a task that is queued; the rule of domain/order.py.
-- uses: tasks, names
-- built when needed

-- The lowest round of any ready task of a fair lane, or false.
local function present_round(lane)
  local lowest, from, to = false, '[' .. lane, '(' .. lane .. '\255'
  while true do
    local head = first(K.ready, from, to)
    if not head then return lowest end
    local round = rank_in(head:sub(17))
    if not lowest or round < lowest then lowest = round end
    from = '(' .. head:sub(1, 16) .. '\255'
  end
end

-- The highest round of any queued task of a group, or false.
local function last_round(prefix)
  settle(K.rounds)
  local newest = call('ZREVRANGEBYLEX', K.rounds, '(' .. prefix .. '\255', '[' .. prefix,
    'LIMIT', '0', '1')[1]
  return newest and rank_in(newest:sub(#prefix + 1)) or false
end

-- `seen` keeps what was found, for a verb that queues many and moves none of those before. Whether
-- the first of a lane is ready or parked is not known yet.
local function next_round(lane, group, seen)
  local prefix = lane .. group_text(group)
  if seen[lane] == nil then seen[lane] = present_round(lane) end
  if seen[prefix] == nil then seen[prefix] = last_round(prefix) end
  local round = seen[lane] or 0
  if seen[prefix] then round = math.max(round, seen[prefix] + 1) end
  seen[lane], seen[prefix] = seen[lane] or nil, round
  return round
end

-- Of a task in a lane that is not fair.
local function rank_of(row, priority)
  if row[ORDER] == 'fifo' then return 0 end
  if row[AGEING] then return now + priority * row[AGEING][2] end
  return priority
end

-- Gives a task that becomes queued its rank.
local function queue_up(no, task, seen)
  local lane = lane_of(task)
  local row = lane_row(lane)
  if row[ORDER] == 'fair' then
    if not task[GROUP] then
      local defined = unpacked(call('HGET', K.tasks, no))
      set_last(task, GROUP, defined and defined[DEFINED_GROUP] or '')
    end
    task[PLACE] = with_rank(next_round(lane, task[GROUP], seen or {}), task[PLACE])
  else
    if task[GROUP] then task[GROUP] = false end
    task[PLACE] = with_rank(rank_of(row, task[PRIORITY]), task[PLACE])
  end
end
