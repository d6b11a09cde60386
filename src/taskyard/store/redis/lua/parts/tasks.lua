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
local PLAIN, ATTEMPT, CHARGED, LOSSES, MAX_CHARGED, PRIORITY = 1, 2, 3, 4, 5, 6
local STREAM, PLACE, RUN_AT, KEY_NAMES = 7, 8, 9, 10
local STATE, REASON, LEASE, REQUEST, NODE, STARTED_AT, ENDED_AT = 11, 12, 13, 14, 15, 16, 17
local PARKED_ON, ASKED, DEADLINE, DEDUP, DEDUP_KEPT = 18, 19, 20, 21, 22
-- These are only there if a task has them, or one of those behind them: how many tasks it waits
-- for and what becomes of it if one fails, whether others depend on it, whether it has a
-- checkpoint, and its group while it is in a fair lane.
local WAITS_FOR, ON_FAILURE, AWAITED, CHECKPOINTED, GROUP = 23, 24, 25, 26, 27

-- A task is plain if it has little but what every task has: one key at most, of 31 bytes at most,
-- fields 18 and up false or not there, and small figures. Most tasks are. The packed life of a plain
-- one is so many bytes up to RUN_AT, then come its keys, in as many bytes as PLAIN says, and it ends
-- like those of all that were created, claimed or finished with it: so a claim or a finish of many
-- cuts and joins texts, and unpacks each ending once. PLAIN is false for the others.
local PLAIN_BYTE, ATTEMPT_BYTE, CHARGED_BYTE = 4, 5, 6
local STREAM_FROM, STREAM_TO, PLACE_FROM, PLACE_TO, RUN_AT_TO = 11, 26, 28, 55, 64
local KEY_FROM = 67 -- if there is one: before it the lengths of the list and of the text
local SMALL, LONGEST_KEY, FALSE_BYTE = 100, 31, 194
local LIFE_HEAD = '\220\0\22' -- a list of 22
local ENDING_HEAD = '\156' -- a list of 12: from STATE on
local ENDING_STATE, ENDING_REASON, ENDING_LEASE, ENDING_NODE, ENDING_STARTED_AT = 1, 2, 3, 5, 6
local ALL_FALSE = ('\194'):rep(5) -- from PARKED_ON on

local NO_KEYS = {}

local function as_text(number)
  return format('%014x', number)
end

local function as_number(text)
  return tonumber(text, 16)
end

-- Where in a definition these are; the rest is for Python.
local DEFINED_KIND, DEFINED_PAYLOAD, DEFINED_GROUP, DEFINED_UNTIL, DEFINED_CREATED_AT = 2, 4, 5, 7, 11
local DEFINED_TRACE = 12 -- only there if it carries one

-- no -> packed life as it is at this moment, false if there is none or only the table is right; the
-- table that was made of it; what is known of a plain one, and its key; whether the table was changed.
local packed_lives, loaded, glances, own_keys, changed = {}, {}, {}, {}, {}
local endings = {}

-- What cannot be read is not there.
local function unpacked(packed)
  local fine, row = pcall(cmsgpack.unpack, packed)
  return fine and type(row) == 'table' and row
end

-- Whether it has the fields above. In older layouts, which a program of an older release may still
-- write, the state was the first.
local function is_life(row)
  return #row >= DEDUP_KEPT and type(row[PLAIN]) ~= 'string' and type(row[STREAM]) == 'string'
    and type(row[STATE]) == 'string'
end

local function load_many(nos)
  local wanted = {}
  for _, no in ipairs(nos) do
    if packed_lives[no] == nil then wanted[#wanted + 1] = no end
  end
  local found = get_many(K.lives, wanted)
  for at, no in ipairs(wanted) do
    packed_lives[no] = found[at]
  end
end

-- The task with this number, or false.
local function load(no)
  local task = loaded[no]
  if task == nil then
    if packed_lives[no] == nil then load_many({ no }) end
    local packed = packed_lives[no]
    task = packed and unpacked(packed)
    task = task and is_life(task) and task
    loaded[no] = task
  end
  return task
end

-- The last fields of a plain task that was loaded, from STATE on; else false. Whoever was looked at
-- once is found in `glances`; one who was not goes the longer way.
local function glance(no)
  local known = glances[no]
  if known ~= nil then return known end
  local packed = packed_lives[no]
  known = false
  local width = packed and byte(packed, PLAIN_BYTE)
  if width and width < FALSE_BYTE and sub(packed, 1, 3) == LIFE_HEAD then
    local ending = sub(packed, RUN_AT_TO + width + 1)
    own_keys[no] = width > 1 and sub(packed, KEY_FROM, RUN_AT_TO + width)
    known = endings[ending]
    if known == nil then
      known = unpacked(ENDING_HEAD .. ending)
      endings[ending] = known
    end
  end
  glances[no] = known
  return known
end

local function ending_of(state, reason, lease, request, node, started_at, ended_at)
  local packed = cmsgpack.pack(state, reason, lease, request, node, started_at, ended_at) .. ALL_FALSE
  endings[packed] = unpacked(ENDING_HEAD .. packed)
  return packed
end

-- A plain task ends like this from now on, and one of its small figures is greater by one; answers it.
local function go_on_plain(no, figure, ending)
  local packed = packed_lives[no]
  packed = sub(packed, 1, figure - 1) .. char(byte(packed, figure) + 1)
    .. sub(packed, figure + 1, RUN_AT_TO + byte(packed, PLAIN_BYTE)) .. ending
  packed_lives[no], loaded[no], glances[no] = packed, nil, endings[ending]
  return packed
end

-- It is the table that is right from now on.
local function note_change(no)
  packed_lives[no], glances[no], changed[no] = false, false, true
end

local function stream_of(no)
  return glances[no] and sub(packed_lives[no], STREAM_FROM, STREAM_TO) or load(no)[STREAM]
end

local function lane_at(no)
  if glances[no] then return sub(packed_lives[no], STREAM_FROM, STREAM_FROM + 7) end
  return sub(load(no)[STREAM], 1, 8)
end

local function place_in_lane(no)
  return glances[no] and sub(packed_lives[no], PLACE_FROM, PLACE_TO) or load(no)[PLACE]
end

-- A plain task has no deadline.
local function is_late(no)
  if glances[no] then return false end
  local deadline = load(no)[DEADLINE]
  return deadline and deadline <= now
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

-- Those of a queued task that its place and the key it waits for are in.
local function each_queue(no, task, write)
  if task[PARKED_ON] then
    write(K.parked, task[PARKED_ON] .. '\0' .. stand(no, task))
  else
    write(K.ready, stand(no, task))
  end
  if task[GROUP] then each_index_of_group(no, task, write) end
end

local function each_index(no, task, write)
  local state = task[STATE]
  write(K[state], task[STREAM] .. no)
  if state == 'running' then
    write(K.runs, run_of(no, task))
    return
  end
  if state == 'queued' then
    each_queue(no, task, write)
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
  note_change(no)
  if task[STATE] ~= 'running' and not task[PARKED_ON] then hint() end
end

-- Another place among those who wait: news for nobody.
local function move(no, task, place)
  each_queue(no, task, drop)
  task[PLACE] = place
  each_queue(no, task, put)
  note_change(no)
end

-- A queued task waits for this key; or, with false, for none.
local function park_on(no, task, key)
  each_queue(no, task, drop)
  task[PARKED_ON] = key
  each_queue(no, task, put)
  note_change(no)
  if not key then hint() end
end

-- A change that moves the task in no index.
local function touch(no)
  note_change(no)
end

-- `paused` is 1, or the instant until which the yard is paused, or 0.
local function is_yard_paused()
  local paused = tonumber(call('HGET', K.meta, 'paused') or 0)
  return paused == 1 or paused > now
end

-- Takes `count` numbers; answers the one before the first. They are never behind the clock, so
-- that a server that came back without its last writes does not give the same number twice: an
-- old worker's verdict would end another task. A yard of another layout gives none.
local function numbers(count, counter)
  counter = counter or 'seq'
  local found, schema = unpack(call('HMGET', K.meta, counter, 'schema'))
  refuse_other_layout(schema)
  local last = math.max(tonumber(found or 0), now)
  call('HSET', K.meta, counter, whole(last + count))
  if not schema then call('HSET', K.meta, 'schema', SCHEMA) end
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

-- How many bytes the keys of a plain task take, or false.
local function plain_width(task)
  local keys = task[KEY_NAMES]
  local plain = #task == DEDUP_KEPT and not (task[PARKED_ON] or task[ASKED] or task[DEADLINE]
    or task[DEDUP] or task[DEDUP_KEPT]) and task[ATTEMPT] < SMALL and task[CHARGED] < SMALL
    and task[LOSSES] < SMALL and task[MAX_CHARGED] < SMALL and task[RUN_AT] > 4294967295
    and (not keys or (#keys == 1 and #keys[1] <= LONGEST_KEY))
  return plain and (keys and 2 + #keys[1] or 1)
end

-- The packed life of a task, written if it was changed.
local function pack_up(no)
  if changed[no] then
    local task = loaded[no]
    task[PLAIN] = plain_width(task)
    packed_lives[no] = cmsgpack.pack(task)
    changed[no], glances[no] = nil, nil
    set(K.lives, no, packed_lives[no])
  end
  return packed_lives[no]
end

local function commit()
  for no in pairs(changed) do
    pack_up(no)
  end
  write_all()
end
