-- note.lua: a line of the audit trail about something that is done outside of the store.
-- uses: current, full, audit
-- args: actor, action, subject, detail

audit(args[1], args[2], args[3], args[4])
