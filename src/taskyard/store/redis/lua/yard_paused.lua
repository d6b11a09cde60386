-- yard_paused.lua: whether nothing new is started in any lane.
-- uses: tasks

return is_yard_paused() and 1 or 0
