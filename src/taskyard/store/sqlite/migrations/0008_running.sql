-- What runs, by who runs it: one index instead of one by lease and one by lane, both of which every claim and every
-- end wrote. A claim counts in it without looking at a row. Whoever asks for a lane reads all that runs, which is
-- never more than the nodes have slots for and claim ahead.
DROP INDEX taskyard_running_lane;
DROP INDEX taskyard_running_lease;
CREATE INDEX taskyard_running ON taskyard_tasks (lease, lane, started_at) WHERE state = 'running';
