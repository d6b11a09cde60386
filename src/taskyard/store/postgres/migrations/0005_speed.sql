-- What waits in a lane, for whoever asks for the lane alone and says no > 0, as all numbers are. As an index
-- of all rows it was taken for the way to the waiters of one key, where the table was empty when the plan was
-- made: each of them was then looked for in the whole lane.
DROP INDEX taskyard.parked_lane;
CREATE INDEX parked_lane ON taskyard.parked (lane) WHERE no > 0;

-- Functions whose arguments or answers are others now.
DROP FUNCTION IF EXISTS taskyard.search_freely(bigint, bigint, bigint, integer, integer, taskyard.stretch[]);
