-- rows: the first tasks of one stream, taken together. What `look` does for any tasks is done here in
-- fewer steps if they are all plain and there is room for each of them.
-- uses: noting, taking

-- Tasks that may not be claimed ahead come in long rows: if none of so many that start could have been,
-- nobody looks behind them.
local MANY_ALIKE = 20

-- The lives of these as they are at this moment.
local function lives_of(nos)
  for no in pairs(changed) do
    pack_up(no)
  end
  local lives = get_many(K.lives, nos)
  if next(packed_lives) then
    for at = 1, #nos do
      local life = packed_lives[nos[at]]
      if life ~= nil then lives[at] = life end
    end
  end
  return lives
end

-- Whether all these keys have room for those who carry them.
local function have_room(keys)
  local names, needs = {}, {}
  for _, key in pairs(keys) do
    if not needs[key] then names[#names + 1] = key end
    needs[key] = (needs[key] or 0) + 1
  end
  for key, room in pairs(rooms_in(names)) do
    if room < needs[key] then return false end
  end
  return true
end

-- The lives of these when they are taken, the keys of those that have one by their places, and what is told
-- of their lives: how they begin, which is the same for all that differ in their keys alone. Nothing if not
-- all may be taken. Those that are not started at once must be free to wait here.
local function lives_when_taken(lives, at_once, ending)
  local afters, keys, told, m, last, after, key = {}, {}, {}, 0, nil, nil, nil
  for at = 1, #lives do
    local life = lives[at]
    if life ~= last then
      local known
      known, key = recognized(life or '')
      if not known then return end
      if not at_once and (key or known.ending[ENDING_REASON] == 'rescued') then return end
      last, after = life, go_on(known, life, ATTEMPT_BYTE, ending)
      known.told = known.told or after
      if known.told ~= told[m - 1] then
        told[m + 1], told[m + 2], m = known.told, 0, m + 2
      end
    end
    afters[at], told[m] = after, told[m] + 1
    if key then keys[at] = key end
  end
  if next(keys) and not have_room(keys) then return end
  return afters, keys, told
end

local function take_row(stream, nos, lives, run)
  local queued, running, runs, saved = { sorted = true }, {}, {}, {}
  local n, last = 0, ''
  for at = 1, #nos do
    local no, life = nos[at], lives[at]
    local of_state = stream .. no
    queued[at] = of_state
    running[n + 1], running[n + 2], runs[n + 1], runs[n + 2] = '0', of_state, '0', run .. no
    saved[n + 1], saved[n + 2], n = no, life, n + 2
    if no < last then queued.sorted = false end
    last = no
  end
  queued.mixed = not queued.sorted
  hand_over(K.queued, 'TAKE_OUT', queued)
  hand_over(K.running, 'ZADD', running)
  hand_over(K.runs, 'ZADD', runs)
  set_all(K.lives, saved)
end

-- Takes the first tasks of a stream, as many as there is room for; says whether another look could find
-- more, or nothing if it is not that simple.
local function take_first(stream, want, room, search)
  local at_once, limit = search.slots > 0, room and math.min(want, room) or want
  if room and not at_once then return end
  local members, nos = range(K.ready, '[' .. stream, '(' .. stream .. '\255', limit), {}
  local count = #members
  for at = 1, count do
    nos[at] = sub(members[at], -14)
  end
  local lives = lives_of(nos)
  local started_at = at_once and now
  local afters, keys, told = lives_when_taken(lives, at_once, ending_when_taken(search, started_at))
  if not afters then
    for at = 1, count do
      packed_lives[nos[at]] = lives[at]
    end
    return
  end
  local run = search.lease_text .. (at_once and 's' or 'a')
  take_row(stream, nos, afters, run)
  note_row(at_once and search.now or search.later, nos, told)
  local free = count
  for at, key in pairs(keys) do
    hold_key(key, nos[at], search)
    free = free - 1
  end
  members.row = true
  hand_over(K.ready, 'TAKE_OUT', members)
  if at_once then
    search.slots = search.slots - count
    if count >= MANY_ALIKE and (room or free == 0) then search.ahead = 0 end
  else
    search.ahead = search.ahead - count
  end
  return count == limit
end
