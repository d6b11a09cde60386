-- promote.lua: do what waits for a moment that has come; answers {count, when the next one is}.
-- uses: full, moments
-- args: limit

local nos, moments = {}, {}
for _, member in ipairs(call('ZRANGEBYSCORE', K.due, '-inf', whole(now), 'LIMIT', 0, args[1])) do
  local list = is_moment(member) and moments or nos
  list[#list + 1] = member
end
nos = readable(K.due, nos)
local seen = {}
for _, no in ipairs(nos) do
  local task = load(no)
  lift(no, task)
  task[STATE], task[REASON] = 'queued', 'due'
  queue_up(no, task, seen)
  set_down(no, task)
end
for _, moment in ipairs(moments) do
  it_has_come(moment)
end
call('ZREMRANGEBYSCORE', K.buckets, '-inf', whole(now))
commit()
local head = call('ZRANGE', K.due, 0, 0, 'WITHSCORES')
return { #nos + #moments, head[2] and whole(head[2]) or false }
