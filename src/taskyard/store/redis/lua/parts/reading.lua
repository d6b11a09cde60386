-- reading: whole tasks, as Python puts them together.
-- uses: tasks
-- KEYS results   HASH  no -> result
-- KEYS progress  HASH  no -> packed progress
-- KEYS failures  HASH  no -> packed list of failed attempts

-- {nos, definitions, lives, results, progress, failures}, one list each.
local function whole_tasks(nos)
  return {
    nos, get_many(K.tasks, nos), get_many(K.lives, nos), get_many(K.results, nos),
    get_many(K.progress, nos), get_many(K.failures, nos),
  }
end
