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

-- As text: Lua would write a time in microseconds as 1.7e+15.
local function whole(number)
  return format('%.0f', number)
end

local function includes(list, wanted)
  for _, value in ipairs(list) do
    if value == wanted then return true end
  end
  return false
end

local function in_chunks(command, key, list)
  for first = 1, #list, CHUNK do
    call(command, key, unpack(list, first, math.min(first + CHUNK - 1, #list)))
  end
end

-- Changes of sorted sets: for each key the arguments of one command that is not sent yet.
local waiting = {}

local function settle(key)
  local list = waiting[key]
  if not list then return end
  waiting[key] = nil
  in_chunks(list.command, key, list)
end

local function arguments(key, command)
  local list = waiting[key]
  if list and list.command == command then return list end
  settle(key)
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
  settle(key)
  return call('ZLEXCOUNT', key, '[' .. prefix, '(' .. prefix .. '\255')
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
    list = {}
    fields[key] = list
  end
  list[#list + 1] = field
  list[#list + 1] = value
end

local function get_many(key, wanted)
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
    in_chunks(list.command, key, list)
  end
  waiting = {}
  for key, list in pairs(fields) do
    in_chunks('HSET', key, list)
  end
  fields = {}
  if news then
    redis.pcall('PUBLISH', ARGV[2], ARGV[3]) -- refused to this user: everything is written already
  end
end
