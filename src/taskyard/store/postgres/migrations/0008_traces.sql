-- The span that a task was enqueued in, of those that carry a trace; to the others it adds no byte.
ALTER TABLE taskyard.tasks ADD COLUMN trace text;

-- Functions whose arguments or answers are others now.
DROP FUNCTION IF EXISTS taskyard.enqueue_one(
    bigint, text, text, text, smallint, integer, bigint, text, text, bigint, integer, bigint);
DROP FUNCTION IF EXISTS taskyard.enqueue_plain(
    bigint, text[], text[], text[], smallint[], integer[], bigint[], integer[], text[], text[], bigint, integer,
    bigint);
DROP FUNCTION IF EXISTS taskyard.enqueue_as_any(
    bigint, text[], text[], text[], smallint[], integer[], bigint[], integer[], text[], text[], bigint, integer,
    bigint);
DROP FUNCTION IF EXISTS taskyard.enqueue(
    bigint, bigint, integer, bigint, text[], text[], text[], text[], integer[], integer[], smallint[], integer[],
    bigint[], text[], bigint[], bigint[], bigint[], text[], text[], text[], text[], text[], boolean[], text[],
    text[], boolean);
DROP FUNCTION IF EXISTS taskyard.enqueue_each(
    bigint, integer[], integer[], text[], text[], text[], text[], integer[], integer[], smallint[], integer[],
    bigint[], text[], bigint[], bigint[], bigint[], text[], text[], text[], text[], text[], boolean[], text[],
    text[], boolean);
DROP FUNCTION IF EXISTS taskyard.fire_cron(
    text, bigint, bigint, bigint, bigint, bigint, integer, bigint, text[], text[], text[], text[], integer[],
    integer[], smallint[], integer[], bigint[], text[], bigint[], bigint[], bigint[], text[], text[], text[],
    text[], text[], boolean[], text[], text[], boolean);
DROP FUNCTION IF EXISTS taskyard.change_waiting(bigint, text, bigint, boolean);
DROP FUNCTION IF EXISTS taskyard.clash(text, text, integer, text, bigint, boolean);
DROP FUNCTION IF EXISTS taskyard.load(bigint[]);
DROP FUNCTION IF EXISTS taskyard.search_freely(
    bigint, bigint, bigint, integer, integer, taskyard.stretch[], boolean);
DROP FUNCTION IF EXISTS taskyard.turn(
    bigint, bigint[], integer[], bigint[], text[], json, text[], bigint[], bigint, bigint, integer, integer);
