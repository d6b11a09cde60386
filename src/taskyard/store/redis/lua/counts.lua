-- counts.lua: how many tasks are in each of these states.
-- uses: tasks
-- args: states

local answer = {}
for at, state in ipairs(args[1]) do
  answer[at] = call('ZCARD', K[state])
end
return answer
