-- needing: whose end a task waits for.
-- uses: base
-- built when needed
-- KEYS dependents  ZSET  id \0 phase no: see dependencies
-- KEYS needs       HASH  no -> packed list of the ids it depends on

-- Their ids, `most` of them if it is given.
local function unmet_of(no, most)
  local packed, ids = call('HGET', K.needs, no), {}
  for _, id in ipairs(packed and cmsgpack.unpack(packed) or {}) do
    if #ids == most then break end
    if call('ZSCORE', K.dependents, id .. '\0u' .. no) then ids[#ids + 1] = id end
  end
  return ids
end
