-- enqueue.lua: save these tasks, all or none.
-- uses: enqueuing
-- args: tasks, the hold that must be accepted or nil
-- Answers {packed: '' for each task that was saved, else [why, id or text]}; {false, id} if a task
-- depends on one that is not there, {} if the hold is not accepted.

local tasks, by = args[1], args[2]
if by and not accepted(by) then return {} end

local answers, unknown = enqueue(tasks)
if unknown then return { false, unknown } end
commit()
return { answers }
