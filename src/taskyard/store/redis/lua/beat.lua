-- beat.lua: renew a lease; answers its news, or nothing if it is gone.
-- A lease that ran out but was not rescued yet comes back to life: nobody took its tasks.
-- uses: full, nodes, names
-- args: lease, what its process uses as text, or nil

local lease = args[1]
local row = read_lease(lease)
if not row then return false end
local node = cmsgpack.unpack(call('HGET', K.nodes, whole(lease)))
row[UNTIL], row[SEEN_AT] = now + node[LEASE_US], now
if args[2] then row[USAGE] = args[2] end
write_lease(lease, row)
return news_of(lease)
