-- Ended tasks by their age.
CREATE INDEX taskyard_ended_at ON taskyard_tasks (state, ended_at) WHERE ended_at IS NOT NULL;
