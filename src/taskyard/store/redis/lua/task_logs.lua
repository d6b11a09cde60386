-- task_logs.lua: what attempts of a task have said, the oldest first.
-- uses: current, tasks, logs
-- KEYS ids  HASH  id -> no
-- args: id, attempt and number of the last line seen or 0, how many
-- Answers false if there is no such task.

local no = call('HGET', K.ids, args[1])
return no and range(K.logs, '[' .. line_at(no, args[2], args[3] + 1), '(' .. no .. PAST_DIGITS, args[4])
