-- reading: whole tasks, as Python puts them together.
-- uses: tasks
-- KEYS results      HASH  no -> result
-- KEYS progress     HASH  no -> packed progress
-- KEYS failures     HASH  no -> packed list of failed attempts
-- KEYS checkpoints  HASH  no -> JSON
-- KEYS needs        HASH  no -> packed list of the ids it depends on

-- {nos, definitions, lives, results, progress, failures, checkpoints, needs}, one list each.
local function whole_tasks(nos)
  return {
    nos, get_many(K.tasks, nos), get_many(K.lives, nos), get_many(K.results, nos),
    get_many(K.progress, nos), get_many(K.failures, nos), get_many(K.checkpoints, nos),
    get_many(K.needs, nos),
  }
end
