-- logs: what attempts have said, line by line.
-- uses: base
-- KEYS logs  ZSET  no attempt number, of fourteen and twice eight hexadecimal digits, and packed [at, level, text]

-- Where the lines of a task stand from this attempt and number on.
local function line_at(no, attempt, number)
  return no .. format('%08x%08x', attempt, number)
end

local function put_line(no, attempt, number, at, level, text)
  put(K.logs, line_at(no, attempt, number) .. cmsgpack.pack({ at, level, text }))
end

-- Comes after every hexadecimal digit, and so after all that begins with a number.
local PAST_DIGITS = 'g'

-- Removes the lines from one text on that stand before another; answers how many.
local function drop_lines(from, to)
  return call('ZREMRANGEBYLEX', K.logs, '[' .. from, '(' .. to)
end
