-- find.lua: tasks by filter, newest first, as far as one search finds them.
-- uses: current, reading, searching, needing
-- args: those of a search, and whether to tell whose end each waits for
-- Answers {where to go on or '', whole tasks, ids of those each waits for if asked}.

local nos, go_on = search(args)
if not args[10] then return { go_on, whole_tasks(nos) } end
local unmet = {}
for at, no in ipairs(nos) do
  local task = load(no)
  unmet[at] = task and (task[WAITS_FOR] or 0) > 0 and unmet_of(no) or {}
end
return { go_on, whole_tasks(nos), unmet }
