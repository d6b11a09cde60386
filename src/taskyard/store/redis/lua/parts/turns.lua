-- turns: the places in a fair lane belong to groups, and go to the first tasks of each.
-- uses: members
-- built when needed

local function by_priority(a, b)
  a, b = load(a), load(b)
  if a[PRIORITY] ~= b[PRIORITY] then return a[PRIORITY] < b[PRIORITY] end
  return a[PLACE]:sub(15) < b[PLACE]:sub(15)
end

-- The first ready tasks of a group in these streams, by priority and seq.
local function first_of_group(streams, group, count)
  local found, group_part = {}, group_text(group)
  for _, stream in ipairs(streams) do
    local prefix = stream .. group_part
    for _, no in ipairs(tasks_at(K.shares, '[' .. prefix, '(' .. prefix .. '\255', count)) do
      found[#found + 1] = no
    end
  end
  table.sort(found, by_priority)
  for at = #found, count + 1, -1 do
    found[at] = nil
  end
  return found
end

-- Those of the second list that are not in the first.
local function others(list, than)
  local there, left = {}, {}
  for _, no in ipairs(list) do
    there[no] = true
  end
  for _, no in ipairs(than) do
    if not there[no] then left[#left + 1] = no end
  end
  return left
end

-- The tasks that have these ranks, in their order, get those of the others and the other way round.
local function exchange(holders, firsts)
  local displaced, comers = others(firsts, holders), others(holders, firsts)
  table.sort(displaced, by_priority)
  local ranks, free = {}, {}
  for at, no in ipairs(firsts) do
    ranks[no] = rank_in(load(holders[at])[PLACE])
  end
  for at, no in ipairs(comers) do
    free[at] = rank_in(load(no)[PLACE])
  end
  table.sort(free)
  for at, no in ipairs(displaced) do
    ranks[no] = free[at]
  end
  for no, rank in pairs(ranks) do
    local task = load(no)
    if rank_in(task[PLACE]) ~= rank then move(no, task, with_rank(rank, task[PLACE])) end
  end
end

-- Gives each place among these candidates to whom of its group it belongs.
local function take_turns(queue, streams)
  local places = {}
  for at, no in ipairs(queue) do
    local group = load(no)[GROUP]
    places[group] = places[group] or {}
    table.insert(places[group], at)
  end
  for group, positions in pairs(places) do
    local holders, firsts = {}, first_of_group(streams, group, #positions)
    for i, at in ipairs(positions) do
      holders[i] = queue[at]
    end
    exchange(holders, firsts)
    for i, at in ipairs(positions) do
      queue[at] = firsts[i]
    end
  end
  return queue
end
