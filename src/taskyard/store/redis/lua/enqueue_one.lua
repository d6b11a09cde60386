-- enqueue_one.lua: save one task that is plain and has no key, into a lane and a route that are known.
-- uses: names, tasks
-- KEYS ids  HASH  id -> no
-- args: lane, name of its route, max_charged, priority, id, definition, packed but for the time at its end,
-- nil or its trace
-- Answers as enqueue_plain.lua does, which saves many: most calls bring one, and a short script is ready
-- sooner.

local lane_name, route_name, max_charged, priority, id, definition, trace = unpack(args, 1, 7)

local lane, route = call('HGET', K.lane_names, lane_name), call('HGET', K.route_names, route_name)
if not lane or not route then return 0 end
if #lane ~= 8 then return lane_name end
if call('HEXISTS', K.ids, id) == 1 then return 0 end

local stream, no = lane .. route, as_text(numbers(1) + 1)
local life = LIFE_HEAD .. char(WIDTH_BASE + 3)
  .. cmsgpack.pack(0, 0, 0, max_charged, priority, stream) .. '\194\194\194'
  .. cmsgpack.pack('queued', 'created', false, false, false, false, false) .. ALL_FALSE

call('HSET', K.ids, id, no)
call('HSET', K.tasks, no, definition .. cmsgpack.pack(now) .. (trace and cmsgpack.pack(trace) or ''))
call('HSET', K.lives, no, life)
call('ZADD', K.queued, '0', stream .. no)
call('ZADD', K.ready, '0', stream .. as_text(priority) .. no .. no)
redis.pcall('PUBLISH', ARGV[2], ARGV[3])
return 1
