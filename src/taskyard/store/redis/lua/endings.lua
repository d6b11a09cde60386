-- endings.lua: those of these tasks that have ended.
-- uses: reading
-- KEYS ids  HASH  id -> no
-- args: ids

local nos = {}
for _, no in ipairs(get_many(K.ids, args[1])) do
  if no then nos[#nos + 1] = no end
end
load_many(nos)
local ended = {}
for _, no in ipairs(nos) do
  if load(no)[ENDED_AT] then ended[#ended + 1] = no end
end
return whole_tasks(ended)
