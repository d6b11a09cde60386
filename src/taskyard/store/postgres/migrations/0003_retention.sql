-- Ended tasks by their age. New ones come at the end of each index.
CREATE INDEX done_well_at ON taskyard.done (ended_at, no) WHERE state = 'completed';
CREATE INDEX done_badly_at ON taskyard.done (state, ended_at, no) WHERE state <> 'completed';

-- Vacuum must not shorten these files when old tasks have gone: that takes a lock no claim could pass.
ALTER TABLE taskyard.tasks SET (vacuum_truncate = false);
ALTER TABLE taskyard.done SET (vacuum_truncate = false);
ALTER TABLE taskyard.progress SET (vacuum_truncate = false);
ALTER TABLE taskyard.failures SET (vacuum_truncate = false);
ALTER TABLE taskyard.task_keys SET (vacuum_truncate = false);
ALTER TABLE taskyard.audit SET (vacuum_truncate = false);
