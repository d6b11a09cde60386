-- full: lets a verb write although the memory of the server is full.
-- uses: base
-- KEYS runs  ZSET  lease phase no: see tasks
-- ARGV[5]  full: the server refused this call before for want of memory

-- A server whose memory is full refuses the first write of a script if that could take memory; once
-- a script has written, it lets it end. So a call that was refused has changed nothing and is made
-- again, beginning with a command that takes no memory and changes nothing. A verb may use this part
-- if it gives memory back or takes little for each thing that exists already: so nobody loses a
-- lease, workers can start, and what waits can run, end and be pruned. Verbs that bring new tasks
-- must not.
if ARGV[5] == 'full' then call('ZREM', K.runs, '') end
