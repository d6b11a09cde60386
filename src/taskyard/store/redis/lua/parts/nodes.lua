-- nodes: incarnations of nodes and their leases.
-- uses: members
-- KEYS nodes        HASH  lease -> packed definition: see names
-- KEYS leases       HASH  lease -> packed [until, seen_at, state, last_request, usage]
-- KEYS node_ids     ZSET  id \0 lease
-- KEYS node_routes  HASH  lease -> routes
-- KEYS duties       HASH  name -> packed [lease of the holder, until]

local UNTIL, SEEN_AT, NODE_STATE, LAST_REQUEST, USAGE = 1, 2, 3, 4, 5

-- Numbers of what runs under a lease, but for what cannot be read.
local function runs_under(lease)
  local members, nos = all_of(K.runs, as_text(lease)), {}
  for at, member in ipairs(members) do
    members[at] = number_at(member)
  end
  load_many(members)
  for _, no in ipairs(members) do
    if load(no) then nos[#nos + 1] = no end
  end
  return nos
end

local function read_lease(lease)
  local packed = call('HGET', K.leases, whole(lease))
  return packed and cmsgpack.unpack(packed)
end

local function write_lease(lease, row)
  call('HSET', K.leases, whole(lease), cmsgpack.pack(row))
end

local function is_superseded(id, lease)
  return first(K.node_ids, '(' .. id .. '\0' .. as_text(lease), '(' .. id .. '\1') ~= nil
end

-- Nothing that can be read runs under the lease any more.
local function forget_node(lease, id)
  local field = whole(lease)
  readable(K.runs, all_of(K.runs, as_text(lease)))
  drop(K.node_ids, id .. '\0' .. as_text(lease))
  call('HDEL', K.nodes, field)
  call('HDEL', K.leases, field)
  call('HDEL', K.node_routes, field)
  local duties = call('HGETALL', K.duties)
  for at = 1, #duties, 2 do
    if cmsgpack.unpack(duties[at + 1])[1] == lease then call('HDEL', K.duties, duties[at]) end
  end
end

-- What a beat brings back: packed [no, attempt, asked] of what is asked to do something.
local function news_of(lease)
  local asks, nos = {}, all_of(K.asked, as_text(lease))
  for at, member in ipairs(nos) do
    nos[at] = number_at(member)
  end
  load_many(nos)
  for _, no in ipairs(nos) do
    local task = load(no)
    if task then asks[#asks + 1] = { as_number(no), task[ATTEMPT], task[ASKED] } end
  end
  return cmsgpack.pack(asks)
end
