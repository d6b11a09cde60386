-- base: the arguments, the clock, and writes that are gathered and sent together.
-- ARGV[1]  microseconds to add to the server's clock; or = and the time itself. For tests.
-- ARGV[2]  the channel of hints
-- ARGV[3]  who asks: goes with the hint, so that nobody is startled by his own
-- ARGV[4]  the verb's own arguments, packed as a list
-- A value that is not there is `false` in what we store: a list with nil in it would be packed as
-- a map. K is made from the KEYS lines of all parts: K.ready is the full name of the key `ready`.

local call, format = redis.call, string.format
local args = cmsgpack.unpack(ARGV[4])

local function read_clock(moved)
  if moved:sub(1, 1) == '=' then return tonumber(moved:sub(2)) end
  local time = call('TIME')
  return time[1] * 1000000 + time[2] + moved
end

local now = read_clock(ARGV[1])

-- Arguments of one command; Lua's stack takes no more than 8000.
local CHUNK = 4000

local sub, byte, char = string.sub, string.byte, string.char

-- As text: Lua would write a time in microseconds as 1.7e+15.
local function whole(number)
  return format('%.0f', number)
end

-- Of a yard that lost everything there is nothing to refuse.
local function refuse_other_layout(found)
  if found and found ~= SCHEMA then error('SCHEMA ' .. found) end
end

local function includes(list, wanted)
  for _, value in ipairs(list) do
    if value == wanted then return true end
  end
  return false
end

local function in_chunks(command, key, list)
  for at = 1, #list, CHUNK do
    call(command, key, unpack(list, at, math.min(at + CHUNK - 1, #list)))
  end
end

-- Changes of sorted sets: for each key the arguments of one command that is not sent yet, and those
-- of what goes before it.
local waiting = {}

-- Lua compares as the locale of the server does, which for digits and small letters is byte order.
local function is_in_order(members)
  for at = 2, #members do
    if members[at - 1] >= members[at] then return false end
  end
  return true
end

-- Takes out members that are all there, as one range if nothing stands between them: to look for
-- each of them costs three times as much. Who knows it already says so: they are `sorted`, or a whole
-- `row` that was read from there.
local function take_out(key, members)
  local count = #members
  if members.row or count > 4 and not members.mixed and (members.sorted or is_in_order(members)) then
    local from, to = '[' .. members[1], '[' .. members[count]
    if members.row or call('ZLEXCOUNT', key, from, to) == count then
      call('ZREMRANGEBYLEX', key, from, to)
      return
    end
  end
  in_chunks('ZREM', key, members)
end

local function send(key, list)
  if list.before then send(key, list.before) end
  if list.command == 'TAKE_OUT' then
    take_out(key, list)
  else
    in_chunks(list.command, key, list)
  end
end

local function send_waiting(key)
  local list = waiting[key]
  if not list then return end
  waiting[key] = nil
  send(key, list)
end

-- Members that leave when everything else is written, though nobody sees them any more: a set that
-- others come into is not emptied before, as Redis would make a new one, and those are slow to fill.
-- For each key some lists of members that are all there, and that nobody puts or drops. Those of one
-- list begin with the same 15 bytes and are digits and small letters, unless it is `mixed`: then
-- whoever made it knows how to count.
local leaving = {}

local function leave(key, members)
  if #members == 0 then return end
  leaving[key] = leaving[key] or {}
  table.insert(leaving[key], members)
end

local function send_leaving(key)
  local lists = leaving[key]
  if not lists then return end
  leaving[key] = nil
  for _, members in ipairs(lists) do
    take_out(key, members)
  end
end

local function settle(key)
  send_waiting(key)
  send_leaving(key)
end

-- A whole list of members, with their scores for ZADD; TAKE_OUT is ZREM of members that are there.
local function hand_over(key, command, list)
  if #list == 0 then return end
  list.command, list.n, list.before = command, #list, waiting[key]
  waiting[key] = list
end

local function arguments(key, command)
  local list = waiting[key]
  if list and list.command == command then return list end
  send_waiting(key)
  list = { command = command, n = 0 }
  waiting[key] = list
  return list
end

local function put(key, member, score)
  local list = arguments(key, 'ZADD')
  local n = list.n
  list[n + 1], list[n + 2], list.n = score or '0', member, n + 2
end

local function drop(key, member)
  local list = arguments(key, 'ZREM')
  local n = list.n + 1
  list[n], list.n = member, n
end

-- The members from one bound to another, in byte order, seeing what was put and dropped.
local function range(key, from, to, count)
  settle(key)
  return call('ZRANGEBYLEX', key, from, to, 'LIMIT', '0', count)
end

local function first(key, from, to)
  return range(key, from, to, '1')[1]
end

-- No text in UTF-8 has a byte 255: it comes after everything that begins with a prefix.
local function count_of(key, prefix)
  send_waiting(key)
  local count = call('ZLEXCOUNT', key, '[' .. prefix, '(' .. prefix .. '\255')
  for _, members in ipairs(leaving[key] or {}) do
    if not members.mixed and members[1]:sub(1, #prefix) == prefix then count = count - #members end
  end
  return count
end

local function all_of(key, prefix)
  settle(key)
  return call('ZRANGEBYLEX', key, '[' .. prefix, '(' .. prefix .. '\255')
end

-- Hashes: key -> list of field, value.
local fields = {}

local function set(key, field, value)
  local list = fields[key]
  if not list then
    list = { n = 0 }
    fields[key] = list
  end
  local n = list.n
  list[n + 1], list[n + 2], list.n = field, value, n + 2
end

-- A whole list of fields and values.
local function set_all(key, list)
  if #list == 0 then return end
  list.n, list.before = #list, fields[key]
  fields[key] = list
end

local function send_fields(key, list)
  if list.before then send_fields(key, list.before) end
  in_chunks('HSET', key, list)
end

local function get_many(key, wanted)
  if #wanted > 0 and #wanted <= CHUNK then return call('HMGET', key, unpack(wanted)) end
  local found = {}
  for at = 1, #wanted, CHUNK do
    local values = call('HMGET', key, unpack(wanted, at, math.min(at + CHUNK - 1, #wanted)))
    for i = 1, #values do
      found[at + i - 1] = values[i]
    end
  end
  return found
end

-- Something became ready, was asked for or ended: whoever listens should look.
local news = false

local function hint()
  news = true
end

local function write_all()
  for key, list in pairs(waiting) do
    send(key, list)
  end
  waiting = {}
  for key in pairs(leaving) do
    send_leaving(key)
  end
  for key, list in pairs(fields) do
    send_fields(key, list)
  end
  fields = {}
  if news then
    redis.pcall('PUBLISH', ARGV[2], ARGV[3]) -- refused to this user: everything is written already
  end
end
