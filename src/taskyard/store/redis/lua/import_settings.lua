-- import_settings.lua: take over lanes, rules, periodic tasks, and the audit trail, oldest first.
-- uses: naming, rules
-- KEYS crons      HASH    name -> packed entry: see crons
-- KEYS due        ZSET    what waits for a moment: see moments
-- KEYS audit      STREAM  number-0 -> at, actor, action, subject, detail
-- args: lanes as they are kept, rules and periodic tasks as pairs of name and what is kept, lines of
-- the audit trail; a number that is taken is one that was copied before

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
write_all()
