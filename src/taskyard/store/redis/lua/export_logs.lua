-- export_logs.lua: what all attempts have said, by task, attempt and number.
-- uses: current, tasks, logs
-- args: no, attempt and number of the last line seen or 0, how many

return range(K.logs, '[' .. line_at(as_text(args[1]), args[2], args[3] + 1), '+', args[4])
