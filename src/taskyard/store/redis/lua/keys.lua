-- keys.lua: the keys that are held or waited for, the most wanted first.
-- uses: keys
-- args: limit
-- Answers packed [name, limit, waiting, holders' ids] of each.

local names, waiting = {}, {}

local function add(key)
  if not waiting[key] then
    names[#names + 1] = key
    waiting[key] = count_of(K.parked, key .. '\0')
  end
end

local from = '-'
while true do
  local head = first(K.held, from, '+')
  if not head then break end
  local key = head:sub(1, head:find('%z') - 1)
  add(key)
  from = '(' .. key .. '\1'
end
each_waited_key('', add)
table.sort(names, function(a, b)
  if waiting[a] ~= waiting[b] then return waiting[a] > waiting[b] end
  return a < b
end)

local answer = {}
for at = 1, math.min(#names, args[1]) do
  local key = names[at]
  local nos = all_of(K.held, key .. '\0')
  for i, member in ipairs(nos) do
    nos[i] = number_at(member)
  end
  answer[at] = cmsgpack.pack({ key, limit_of(key), waiting[key], ids_of(nos) })
end
return answer
