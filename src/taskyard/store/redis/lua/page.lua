-- page.lua: the same tasks as a list shows them.
-- uses: current, searching
-- KEYS progress  HASH  no -> packed progress
-- KEYS failures  HASH  no -> packed list of failed attempts
-- args: those of a search, and how long a payload may be
-- Answers {where to go on or '', {nos, definitions, lives, progress, packed [type, message] of the last
-- error}}, one list each.

local short = args[10]

-- One by one: all definitions at once could be a gigabyte.
local function definitions_of(nos)
  local found = {}
  for at, no in ipairs(nos) do
    local definition = call('HGET', K.tasks, no)
    found[at] = definition and shortened(definition, short)
  end
  return found
end

local function last_errors(nos)
  local found = {}
  for at, no in ipairs(nos) do
    local packed = call('HGET', K.failures, no)
    local list = packed and unpacked(packed)
    local err = list and list[#list][6]
    found[at] = err and cmsgpack.pack({ err.type, err.message }) or false
  end
  return found
end

local nos, go_on = search(args)
return {
  go_on,
  { nos, definitions_of(nos), get_many(K.lives, nos), get_many(K.progress, nos), last_errors(nos) },
}
