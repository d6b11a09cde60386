-- promote.lua: queue the pending tasks whose time has come; answers {count, when the next is due}.
-- uses: full, members
-- args: limit

local nos = call('ZRANGEBYSCORE', K.due, '-inf', whole(now), 'LIMIT', 0, args[1])
nos = readable(K.due, nos)
for _, no in ipairs(nos) do
  local task = load(no)
  lift(no, task)
  task[STATE], task[REASON] = 'queued', 'due'
  set_down(no, task)
end
commit()
local head = call('ZRANGE', K.due, 0, 0, 'WITHSCORES')
return { #nos, head[2] and whole(head[2]) or false }
