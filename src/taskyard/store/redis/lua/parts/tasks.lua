-- tasks: what a verb knows and changes of tasks, and the indexes every task is in.
-- uses: groups
-- KEYS meta       HASH  counters: seq, lease, lane, route, audit; schema; paused
-- KEYS tasks      HASH  no -> packed definition, never changed: see enqueue.lua
-- KEYS lives      HASH  no -> packed state, rewritten by every transition: the fields below
-- KEYS ready      ZSET  lane route place no; may be claimed, in byte order
-- KEYS parked     ZSET  key \0 and the same; waits for that full key
-- KEYS due        ZSET  no by run_at, pending; and what else waits for a moment: see moments
-- KEYS deadlines  ZSET  no by deadline; pending and queued
-- KEYS runs       ZSET  lease phase no; phase s: started, a: claimed ahead
-- KEYS asked      ZSET  lease no; running, and asked to do something
-- KEYS dedup      HASH  dedup key -> no of the task that keeps it
-- KEYS pending    ZSET  lane route no: all tasks in this state
-- KEYS queued     ZSET  the same
-- KEYS running    ZSET  the same
-- KEYS completed  ZSET  the same
-- KEYS failed     ZSET  the same
-- KEYS cancelled  ZSET  the same
-- KEYS paused     ZSET  the same

-- Numbers of tasks and leases, and seq, are texts of fourteen hexadecimal digits, so that byte
-- order is their order. Lane and route have eight each; together they are the task's stream.
-- The place in a lane is rank and seq, each such a text.
local STATE, REASON, ATTEMPT, CHARGED, MAX_CHARGED, LOSSES = 1, 2, 3, 4, 5, 6
local STREAM, PRIORITY, PLACE, KEY_NAMES, PARKED_ON, RUN_AT, DEADLINE = 7, 8, 9, 10, 11, 12, 13
local STARTED_AT, ENDED_AT, NODE, ASKED, LEASE, REQUEST = 14, 15, 16, 17, 18, 19
local DEDUP, DEDUP_KEPT = 20, 21
-- These are only there if a task has them, or one of those behind them: how many tasks it waits
-- for and what becomes of it if one fails, whether others depend on it, whether it has a
-- checkpoint, and its group while it is in a fair lane.
local WAITS_FOR, ON_FAILURE, AWAITED, CHECKPOINTED, GROUP = 22, 23, 24, 25, 26

local NO_KEYS = {}

local function as_text(number)
  return format('%014x', number)
end

local function as_number(text)
  return tonumber(text, 16)
end

-- Where in a definition these are; the rest is for Python.
local DEFINED_KIND, DEFINED_PAYLOAD, DEFINED_GROUP, DEFINED_UNTIL = 2, 4, 5, 7

local loaded, changed = {}, {}

-- What cannot be read is not there.
local function unpacked(packed)
  local fine, row = pcall(cmsgpack.unpack, packed)
  return fine and type(row) == 'table' and row
end

local function load_many(nos)
  local wanted = {}
  for _, no in ipairs(nos) do
    if loaded[no] == nil then wanted[#wanted + 1] = no end
  end
  local packed = get_many(K.lives, wanted)
  for at, no in ipairs(wanted) do
    loaded[no] = packed[at] and unpacked(packed[at])
  end
end

-- The task with this number, or false.
local function load(no)
  if loaded[no] == nil then load_many({ no }) end
  return loaded[no]
end

local function lane_of(task)
  return task[STREAM]:sub(1, 8)
end

-- Where it stands in `ready`.
local function stand(no, task)
  return task[STREAM] .. task[PLACE] .. no
end

-- The number stands at the end of a member.
local function number_at(member)
  return member:sub(-14)
end

local function run_of(no, task)
  return task[LEASE] .. (task[STARTED_AT] and 's' or 'a') .. no
end

local function keys_of(task)
  return task[KEY_NAMES] or NO_KEYS
end

local function place_of(rank, seq)
  return as_text(rank) .. as_text(seq)
end

local function rank_in(place)
  return as_number(place:sub(1, 14))
end

local function with_rank(rank, place)
  return as_text(rank) .. place:sub(15)
end

local function with_seq(place, seq)
  return place:sub(1, 14) .. as_text(seq)
end

-- Sets one of the last fields: a list with a hole would be packed as a map.
local function set_last(task, field, value)
  for at = #task + 1, field - 1 do
    task[at] = false
  end
  task[field] = value
end

local function each_index(no, task, write)
  local state = task[STATE]
  write(K[state], task[STREAM] .. no)
  if state == 'running' then
    write(K.runs, run_of(no, task))
    return
  end
  if state == 'queued' then
    if task[PARKED_ON] then
      write(K.parked, task[PARKED_ON] .. '\0' .. stand(no, task))
    else
      write(K.ready, stand(no, task))
    end
    if task[GROUP] then each_index_of_group(no, task, write) end
  elseif state == 'pending' then
    if (task[WAITS_FOR] or 0) == 0 then write(K.due, no, whole(task[RUN_AT])) end
  else
    return
  end
  if task[DEADLINE] then
    write(K.deadlines, no, whole(task[DEADLINE]))
  end
end

-- Every transition: lift the task out of its indexes, change it, set it down where it belongs.
local function lift(no, task)
  each_index(no, task, drop)
end

local function set_down(no, task)
  each_index(no, task, put)
  loaded[no] = task
  changed[no] = true
  if task[STATE] ~= 'running' and not task[PARKED_ON] then hint() end
end

-- Another place among those who wait: news for nobody.
local function move(no, task, place)
  each_index(no, task, drop)
  task[PLACE] = place
  each_index(no, task, put)
  changed[no] = true
end

-- A change that moves the task in no index.
local function touch(no)
  changed[no] = true
end

-- `paused` is 1, or the instant until which the yard is paused, or 0.
local function is_yard_paused()
  local paused = tonumber(call('HGET', K.meta, 'paused') or 0)
  return paused == 1 or paused > now
end

-- Takes `count` numbers; answers the one before the first. They are never behind the clock, so
-- that a server that came back without its last writes does not give the same number twice: an
-- old worker's verdict would end another task.
local function numbers(count, counter)
  counter = counter or 'seq'
  local last = math.max(tonumber(call('HGET', K.meta, counter) or 0), now)
  call('HSET', K.meta, counter, whole(last + count))
  return last
end

local function free_dedup(task)
  if task[DEDUP_KEPT] then
    call('HDEL', K.dedup, task[DEDUP])
    task[DEDUP_KEPT] = false
  end
end

-- A server that came back without its last writes gives their attempts out again, but never a
-- lease: hence both. A hold of lease 0 is of one who does not know it.
local function accepted(hold)
  local task = load(as_text(hold.no))
  if not task or task[STATE] ~= 'running' or task[ATTEMPT] ~= hold.attempt then return false end
  return (hold.lease == 0 or task[LEASE] == as_text(hold.lease)) and task
end

-- The id stands first in a definition; the payload behind it is not looked at. Where it cannot be
-- read the number stands for it.
local function ids_of(nos)
  local ids = get_many(K.tasks, nos)
  for at, definition in ipairs(ids) do
    local fine, _, id = pcall(cmsgpack.unpack_one, definition, 1)
    ids[at] = fine and type(id) == 'string' and id or '#' .. whole(as_number(nos[at]))
  end
  return ids
end

local function commit()
  for no in pairs(changed) do
    set(K.lives, no, cmsgpack.pack(loaded[no]))
  end
  changed = {}
  write_all()
end
