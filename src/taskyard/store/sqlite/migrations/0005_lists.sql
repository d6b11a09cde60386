-- Ended tasks by state, in the order of their numbers, with lane and route beside them: a list by these reads no
-- row, and whoever finishes tasks of many lanes and kinds still writes to one place.
DROP INDEX taskyard_ended;
CREATE INDEX taskyard_ended ON taskyard_tasks (state, no, lane, route) WHERE ended_at IS NOT NULL;
