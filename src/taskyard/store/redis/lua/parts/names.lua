-- names: lanes and routes, and their numbers. Both exist from the first time they are named.
-- uses: base
-- KEYS meta         HASH  counters
-- KEYS lanes        HASH  lane -> packed settings: the fields below
-- KEYS lane_names   HASH  name -> lane, with a * behind it if enqueue must know its settings
-- KEYS routes       HASH  route -> packed [kind, requires]
-- KEYS route_names  HASH  kind \0 requires -> route
-- KEYS nodes        HASH  lease -> packed [id, kinds, capabilities, slots, lease_us, registered_at, rest]
-- KEYS node_routes  HASH  lease -> the routes it serves, eight digits each

-- A rate is [starts, seconds, burst, microseconds between two tokens], ageing [seconds,
-- microseconds]; false where there is none.
local LANE_NAME, CAPACITY, PAUSED, PAUSED_REASON, ORDER = 1, 2, 3, 4, 5
local MAX_DEPTH, RATE, AGEING, PAUSED_UNTIL = 6, 7, 8, 9
local NODE_ID, KINDS, CAPABILITIES, SLOTS, LEASE_US, REGISTERED_AT = 1, 2, 3, 4, 5, 6

local lane_rows = {}

local function lane_row(lane)
  local row = lane_rows[lane]
  if not row then
    row = cmsgpack.unpack(call('HGET', K.lanes, lane))
    for at = #row + 1, PAUSED_UNTIL do
      row[at] = false
    end
    lane_rows[lane] = row
  end
  return row
end
