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

-- A place that is false is that of a new task: its priority, and its number as seq. A RUN_AT that is
-- false is the time of its creation, which its definition tells. So the lives of many tasks are the
-- same text, and what is found out of one is known of all of them.

-- A task is plain if it has little but what every task has: one key at most, of 31 bytes at most,
-- fields 18 and up false or not there, and small figures. Most tasks are. The packed life of a plain
-- one is so many bytes up to STREAM, then come place, RUN_AT and keys, in as many bytes as PLAIN says
-- above WIDTH_BASE, and it ends like those of all that were created, claimed or finished with it: so a
-- claim or a finish of many cuts and joins few texts, and unpacks each ending once. PLAIN is false for
-- the others. In an older layout it was no more than WIDTH_BASE; such a life is read like those.
local PLAIN_BYTE, ATTEMPT_BYTE, CHARGED_BYTE, PRIORITY_BYTE = 4, 5, 6, 9
local STREAM_FROM, STREAM_TO, PLACE_FROM, PLACE_WIDTH, RUN_AT_WIDTH = 11, 26, 27, 29, 9
-- Where place and RUN_AT are false.
local BRIEF_TO, KEYLESS_TO, KEY_FROM = 28, 29, 31
local SMALL, LONGEST_KEY, FALSE_BYTE, WIDTH_BASE = 100, 31, 194, 33
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
local packed_lives, loaded, glances, carried, changed = {}, {}, {}, {}, {}
local endings, known_lives, alike = {}, {}, {} -- by their packed texts

-- What cannot be read is not there.
local function unpacked(packed)
  local fine, row = pcall(cmsgpack.unpack, packed)
  return fine and type(row) == 'table' and row
end

-- Whether it has the fields above. In older layouts, which a program of an older release may still
-- write, the state was the first.
local function is_life(row)
  return #row >= DEDUP_KEPT and type(row[PLAIN]) ~= 'string' and type(row[STREAM]) == 'string'
    and type(row[STATE]) == 'string' and type(row[PRIORITY]) == 'number'
end

local function load_many(nos)
  local wanted, n = {}, 0
  for at = 1, #nos do
    local no = nos[at]
    if packed_lives[no] == nil then
      n = n + 1
      wanted[n] = no
    end
  end
  local found = get_many(K.lives, wanted)
  for at = 1, n do
    packed_lives[wanted[at]] = found[at]
  end
end

-- That of a new task.
local function first_place(priority, no)
  return as_text(priority) .. no
end

-- The task with this number, or false.
local function load(no)
  local task = loaded[no]
  if task == nil then
    if packed_lives[no] == nil then load_many({ no }) end
    local packed = packed_lives[no]
    task = packed and unpacked(packed)
    task = task and is_life(task) and task
    if task and not task[PLACE] then task[PLACE] = first_place(task[PRIORITY], no) end
    loaded[no] = task
  end
  return task
end

-- What the packed life of a plain task tells: its last fields, from STATE on, and what is asked of many.
-- `brief`: place and RUN_AT are false, so the key, if there is one, always begins at the same byte.
local function recognize(packed)
  local width = byte(packed, PLAIN_BYTE)
  if not width or width <= WIDTH_BASE or width >= FALSE_BYTE or sub(packed, 1, 3) ~= LIFE_HEAD then
    return false
  end
  local head_to = STREAM_TO + width - WIDTH_BASE
  local ending = sub(packed, head_to + 1)
  if endings[ending] == nil then endings[ending] = unpacked(ENDING_HEAD .. ending) end
  if not endings[ending] then return false end
  local at, place = PLACE_FROM + 1, false
  if byte(packed, PLACE_FROM) ~= FALSE_BYTE then
    at, place = PLACE_FROM + PLACE_WIDTH, sub(packed, PLACE_FROM + 1, PLACE_FROM + PLACE_WIDTH - 1)
  end
  at = at + (byte(packed, at) == FALSE_BYTE and 1 or RUN_AT_WIDTH)
  return {
    packed = packed, head_to = head_to, ending = endings[ending], place = place,
    stream = sub(packed, STREAM_FROM, STREAM_TO), lane = sub(packed, STREAM_FROM, STREAM_FROM + 7),
    key = at < head_to and sub(packed, at + 2, head_to), -- behind the lengths of list and text
    brief = at == BRIEF_TO + 1,
  }
end

-- What is known of the plain task with this packed life, and its key; false if it is not plain. Lives
-- that differ in their keys alone are known together: of these `packed` and `key` are those of one.
local function recognized(packed)
  local known = known_lives[packed]
  if known == nil then
    local head_to = STREAM_TO + (byte(packed, PLAIN_BYTE) or 0) - WIDTH_BASE
    if head_to > KEYLESS_TO and head_to < #packed then
      local rest = sub(packed, 1, BRIEF_TO) .. sub(packed, head_to + 1)
      known = alike[rest]
      if known then return known, sub(packed, KEY_FROM, head_to) end
      known = recognize(packed)
      if known and known.brief then
        alike[rest] = known
        return known, known.key
      end
    else
      known = recognize(packed)
    end
    known_lives[packed] = known
  end
  return known, known and known.key
end

-- What is known of a plain task that was loaded, else false. Whoever was looked at once is found in
-- `glances`, and its key in `carried`; one who was not goes the longer way.
local function glance(no)
  local known = glances[no]
  if known ~= nil then return known end
  local key
  known, key = recognized(packed_lives[no] or '')
  glances[no], carried[no] = known, key or nil
  return known
end

local function ending_of(state, reason, lease, request, node, started_at, ended_at)
  return cmsgpack.pack(state, reason, lease, request, node, started_at, ended_at) .. ALL_FALSE
end

-- The packed life of a plain task that ends like this from now on, one of its small figures greater by one.
local function go_on(known, packed, figure, ending)
  local of_all = not (known.brief and known.key)
  local after = known[of_all and ending or figure]
  if not after then
    local from = known.packed
    after = sub(from, 1, figure - 1) .. char(byte(from, figure) + 1)
      .. sub(from, figure + 1, of_all and known.head_to or BRIEF_TO)
    if of_all then after = after .. ending end
    known[of_all and ending or figure] = after
  end
  return of_all and after or after .. sub(packed, BRIEF_TO + 1, known.head_to) .. ending
end

-- It is the table that is right from now on.
local function note_change(no)
  packed_lives[no], glances[no], changed[no] = false, false, true
end

local function stream_of(no)
  local known = glances[no]
  return known and known.stream or load(no)[STREAM]
end

local function lane_at(no)
  local known = glances[no]
  return known and known.lane or sub(load(no)[STREAM], 1, 8)
end

local function place_in_lane(no)
  local known = glances[no]
  if not known then return load(no)[PLACE] end
  if known.place then return known.place end
  known.rank = known.rank or as_text(byte(known.packed, PRIORITY_BYTE))
  return known.rank .. no
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
    if (task[WAITS_FOR] or 0) == 0 then write(K.due, no, whole(task[RUN_AT] or 0)) end
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

-- What PLAIN is: how many bytes place, RUN_AT and keys of a plain task take, or false.
local function plain_width(task)
  local keys, run_at = task[KEY_NAMES], task[RUN_AT]
  local plain = #task == DEDUP_KEPT and not (task[PARKED_ON] or task[ASKED] or task[DEADLINE]
    or task[DEDUP] or task[DEDUP_KEPT]) and task[ATTEMPT] < SMALL and task[CHARGED] < SMALL
    and task[LOSSES] < SMALL and task[MAX_CHARGED] < SMALL and (not run_at or run_at > 4294967295)
    and (not keys or (#keys == 1 and #keys[1] <= LONGEST_KEY))
  return plain and WIDTH_BASE + (task[PLACE] and PLACE_WIDTH or 1) + (run_at and RUN_AT_WIDTH or 1)
    + (keys and 2 + #keys[1] or 1)
end

-- The packed life of a task, written if it was changed.
local function pack_up(no)
  if changed[no] then
    local task = loaded[no]
    local place = task[PLACE]
    if place == first_place(task[PRIORITY], no) then task[PLACE] = false end
    task[PLAIN] = plain_width(task)
    packed_lives[no] = cmsgpack.pack(task)
    task[PLACE], changed[no], glances[no] = place, nil, nil
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
