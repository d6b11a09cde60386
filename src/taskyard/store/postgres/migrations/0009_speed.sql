-- Tables that only grow are not vacuumed and analyzed again and again while they are small, nor are ledgers
-- analyzed of which one row counts: every look at a table's statistics makes all sessions plan anew.
ALTER TABLE taskyard.tasks SET (autovacuum_vacuum_insert_threshold = 100000, autovacuum_analyze_threshold = 50000);
ALTER TABLE taskyard.done SET (autovacuum_vacuum_insert_threshold = 100000, autovacuum_analyze_threshold = 50000);
ALTER TABLE taskyard.task_keys SET (
    autovacuum_vacuum_insert_threshold = 100000, autovacuum_analyze_threshold = 50000);
ALTER TABLE taskyard.floors SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
ALTER TABLE taskyard.loads SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
ALTER TABLE taskyard.looks SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
ALTER TABLE taskyard.buckets SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
ALTER TABLE taskyard.completed SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);

-- No task of a lease that still runs was taken by an earlier claim than this: whoever counts what runs begins
-- there, and not at the dead rows of all that has run.
ALTER TABLE taskyard.loads ADD COLUMN since bigint NOT NULL DEFAULT 0;
DROP INDEX taskyard.running_lease;
CREATE INDEX running_lease ON taskyard.running (lease, request, lane);

-- Functions whose arguments or answers are others now.
DROP FUNCTION IF EXISTS taskyard.search_freely(
    bigint, bigint, bigint, integer, integer, taskyard.stretch[], boolean);
DROP FUNCTION IF EXISTS taskyard.choose_from_stream(bigint, taskyard.stretch[], integer, boolean);
DROP FUNCTION IF EXISTS taskyard.search_exactly(bigint, bigint, bigint, integer, integer);
DROP FUNCTION IF EXISTS taskyard.stretches(bigint, bigint);
DROP FUNCTION IF EXISTS taskyard.only_counted(taskyard.stretch[]);
