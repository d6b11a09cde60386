-- groups: the indexes of tasks that wait in a fair lane.
-- uses: base
-- built when needed
-- KEYS rounds  ZSET  lane group place no; queued
-- KEYS shares  ZSET  lane route group priority seq no; ready

-- How a group is written in a member, so that no other begins like it.
local function group_text(group)
  return format('%04x', #group) .. group
end

-- The fields are those of tasks.
local function each_index_of_group(no, task, write)
  local group = group_text(task[GROUP])
  write(K.rounds, task[STREAM]:sub(1, 8) .. group .. task[PLACE] .. no)
  if not task[PARKED_ON] then
    write(K.shares,
      task[STREAM] .. group .. format('%02d', task[PRIORITY]) .. task[PLACE]:sub(15) .. no)
  end
end
