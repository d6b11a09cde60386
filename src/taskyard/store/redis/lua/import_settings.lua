-- import_settings.lua: take over lanes, rules and the audit trail, oldest first.
-- uses: names
-- KEYS key_rules  HASH    exact name, or prefix with * -> limit
-- KEYS audit      STREAM  number-0 -> at, actor, action, subject, detail
-- args: lanes [name, capacity, paused, reason, order], rules, lines of the audit trail; a number
-- that is taken is one that was copied before

for _, lane in ipairs(args[1]) do
  call('HSET', K.lanes, lane_number(lane[1]), cmsgpack.pack(lane))
end
for _, rule in ipairs(args[2]) do
  call('HSET', K.key_rules, rule.pattern, whole(rule.limit))
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
