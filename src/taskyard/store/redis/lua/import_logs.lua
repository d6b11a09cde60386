-- import_logs.lua: take lines over from another store; what is here already stays.
-- uses: current, tasks, logs
-- args: rows of {no, attempt, number, at, level, text}

for _, row in ipairs(args[1]) do
  put_line(as_text(row[1]), row[2], row[3], row[4], row[5], row[6])
end
write_all()
