-- What attempts have said with ctx.log.
CREATE TABLE taskyard_logs (
    no      INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    number  INTEGER NOT NULL,               -- counts the lines of the attempt; one that is missing was dropped
    at      INTEGER NOT NULL,
    level   TEXT NOT NULL,
    text    TEXT NOT NULL,
    PRIMARY KEY (no, attempt, number)
) WITHOUT ROWID;
