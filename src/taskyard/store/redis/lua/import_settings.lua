-- import_settings.lua: take over lanes, rules, periodic tasks, what was taken of rates, and the audit
-- trail, oldest first.
-- uses: naming, keys
-- KEYS crons      HASH    name -> packed entry: see crons
-- KEYS due        ZSET    what waits for a moment: see moments
-- KEYS audit      STREAM  number-0 -> at, actor, action, subject, detail
-- args: lanes as they are kept, rules and periodic tasks as pairs of name and what is kept, lines of
-- the audit trail (a number that is taken is one that was copied before), what was taken of rates

for _, row in ipairs(args[1]) do
  local lane = lane_number(row[LANE_NAME])
  write_lane(lane, row)
  if row[PAUSED_UNTIL] then put(K.due, 'p=' .. lane, whole(row[PAUSED_UNTIL])) end
end
for _, rule in ipairs(args[2]) do
  set(home_of(rule[1]), rule[1], rule[2])
end
for _, cron in ipairs(args[4]) do
  set(K.crons, cron[1], cmsgpack.pack(cron[2]))
end
local last = tonumber(call('HGET', K.meta, 'audit') or 0)
for _, line in ipairs(args[3]) do
  if line.no > last then
    last = line.no
    call('XADD', K.audit, whole(last) .. '-0', 'at', whole(line.at), 'actor', line.actor,
      'action', line.action, 'subject', line.subject, 'detail', line.detail)
  end
end
call('HSET', K.meta, 'audit', whole(last))
write_all() -- the rates are read below

for _, bucket in ipairs(args[5]) do
  if bucket.of_lane then
    local lane = lane_number(bucket.name)
    local rate, name = lane_row(lane)[RATE], 'r=' .. lane
    if rate then
      set_bucket(name, bucket.full_at)
      tell_of(name, rate, tokens_in(name, rate) == 0)
    end
  else
    local rate = rate_of(bucket.name)
    set_bucket('k=' .. bucket.name, bucket.full_at)
    if rate then tell_waiters(bucket.name, rate) end
  end
end
write_all()
