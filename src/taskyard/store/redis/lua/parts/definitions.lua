-- definitions: what is read of a task's definition without its payload, which may be long.
-- uses: tasks

-- How many bytes stand before the text that begins here, and how many it has.
local function text_at(packed, at)
  local head = byte(packed, at)
  if head >= 160 and head <= 191 then return 1, head - 160 end
  if head == 217 then return 2, byte(packed, at + 1) end
  if head == 218 then return 3, (struct.unpack('>I2', packed, at + 1)) end
  return 5, (struct.unpack('>I4', packed, at + 1))
end

-- Where the payload begins, how many bytes its length takes, and how many it has itself.
local function payload_in(definition)
  local before = cmsgpack.unpack_limit(definition, DEFINED_PAYLOAD - 1, 1)
  local head, length = text_at(definition, before + 1)
  return before, head, length
end

-- The definition with `false` for a payload of more than so many bytes. What cannot be read stays as it is:
-- whoever unpacks it will tell.
local function shortened(definition, most)
  local fine, before, head, length = pcall(payload_in, definition)
  if not fine or length <= most then return definition end
  return sub(definition, 1, before) .. '\194' .. sub(definition, before + head + length + 1)
end

-- The last of the fields that every task has.
local function last_field(definition)
  local before, head, length = payload_in(definition)
  local left = DEFINED_CREATED_AT - DEFINED_PAYLOAD
  return (select(left + 1, cmsgpack.unpack_limit(definition, left, before + head + length)))
end

local function created_at(no)
  local fine, at = pcall(last_field, call('HGET', K.tasks, no))
  if not fine or type(at) ~= 'number' then error('UNREADABLE: the definition of task #' .. no) end
  return at
end
