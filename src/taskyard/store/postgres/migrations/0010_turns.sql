-- Functions whose arguments or answers are others now, and one that has become two.
DROP FUNCTION IF EXISTS taskyard.search_freely(
    bigint, bigint, bigint, integer, integer, taskyard.stretch[], boolean);
DROP FUNCTION IF EXISTS taskyard.take_from_stream(
    bigint, bigint, bigint, integer, integer, taskyard.stretch[], boolean);
DROP FUNCTION IF EXISTS taskyard.shift_load(bigint, integer, bigint);
