-- append_logs.lua: keep what attempts have said, and drop what is kept no longer.
-- uses: current, tasks, logs
-- args: pages of {hold, first attempt that is kept, first number that is kept, lines of {number, age in
-- microseconds, level, text}}
-- Answers for each 1, or 0 if it is not the accepted attempt: of that nothing is kept.

-- The number of the last line that is kept of an attempt: those up to it were said again, after a lost answer.
local function last_number(no, attempt)
  local prefix = no .. format('%08x', attempt)
  local member = call('ZREVRANGEBYLEX', K.logs, '(' .. prefix .. PAST_DIGITS, '[' .. prefix, 'LIMIT', '0', '1')[1]
  return member and as_number(member:sub(23, 30)) or 0
end

local answers = {}
for at, page in ipairs(args[1]) do
  local hold, first_attempt, first, lines = page[1], page[2], page[3], page[4]
  local task = accepted(hold)
  answers[at] = task and 1 or 0
  if task then
    local no, attempt = as_text(hold.no), hold.attempt
    local last = last_number(no, attempt)
    if first_attempt > 1 then drop_lines(no, line_at(no, first_attempt, 0)) end
    if first > 1 then drop_lines(line_at(no, attempt, 0), line_at(no, attempt, first)) end
    for _, line in ipairs(lines) do
      if line[1] > last then put_line(no, attempt, line[1], now - line[2], line[3], line[4]) end
    end
  end
end
write_all()
return answers
