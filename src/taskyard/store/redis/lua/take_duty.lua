-- take_duty.lua: become or stay the one who does this duty for so long; 0 if another one does it.
-- uses: full
-- KEYS duties  HASH  name -> packed [lease of the holder, until]
-- args: name, lease, microseconds

local name, holder, span = args[1], args[2], args[3]
local packed = call('HGET', K.duties, name)
if packed then
  local row = cmsgpack.unpack(packed)
  if row[1] ~= holder and row[2] > now then return 0 end
end
call('HSET', K.duties, name, cmsgpack.pack({ holder, now + span }))
return 1
