-- yard_paused.lua: whether nothing new is started in any lane. Answers 1, or until when, or nothing.
-- uses: tasks

return is_yard_paused() and call('HGET', K.meta, 'paused')
