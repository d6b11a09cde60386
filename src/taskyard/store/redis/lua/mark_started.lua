-- mark_started.lua: tell that these attempts, claimed ahead, have started.
-- uses: full, tasks
-- args: holds

for _, hold in ipairs(args[1]) do
  local task = accepted(hold)
  if task and not task[STARTED_AT] then
    local no = as_text(hold.no)
    lift(no, task)
    task[STARTED_AT] = now
    set_down(no, task)
  end
end
commit()
