-- What attempts have said with ctx.log.
CREATE TABLE taskyard.logs (
    no      bigint NOT NULL,
    at      bigint NOT NULL,
    attempt integer NOT NULL,
    number  integer NOT NULL,                -- counts the lines of the attempt; one that is missing was dropped
    level   text NOT NULL,
    text    text NOT NULL,
    PRIMARY KEY (no, attempt, number)
);
ALTER TABLE taskyard.logs SET (vacuum_truncate = false);
