-- Lists and counts of many tasks.

-- Whoever is just saving or ending tasks comes first.
LOCK TABLE taskyard.done IN SHARE ROW EXCLUSIVE MODE;
LOCK TABLE taskyard.tasks IN ACCESS EXCLUSIVE MODE;

-- A list by lane or kind goes through the numbers, newest first: with these two beside them no row is read.
ALTER TABLE taskyard.tasks
    DROP CONSTRAINT tasks_pkey,
    ADD PRIMARY KEY (no) INCLUDE (lane, route);

-- How many tasks have completed, as a ledger: whoever completes or prunes some enters how many, and the sum
-- counts. One row that all of them update would make them wait for each other.
CREATE TABLE taskyard.completed (tasks bigint NOT NULL);
ALTER TABLE taskyard.completed SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, vacuum_truncate = false,
    autovacuum_vacuum_cost_delay = 0);
INSERT INTO taskyard.completed (tasks) SELECT count(*) FROM taskyard.done WHERE state = 'completed';

-- Functions whose arguments or answers are others now.
DROP FUNCTION IF EXISTS taskyard.find(text, text, text, text, bigint, integer);
