-- full: tells whether the memory is full, and lets the verb write all the same.
-- uses: base
-- KEYS runs  ZSET  lease phase no: see tasks

-- A server whose memory is full refuses the first write of a script if that could take memory; once
-- a script has written, it lets it end. Both commands here change nothing. A verb may use this part
-- if it gives memory back or takes little for each thing that exists already: so nobody loses a
-- lease and what runs can end. Verbs that bring something new into the yard must not.
local tried = redis.pcall('ZADD', K.runs, 'XX', '0', '')
local memory_is_full = type(tried) == 'table' and tried.err:find('OOM', 1, true) ~= nil
call('ZREM', K.runs, '')
