-- moment: the server's time in microseconds since the epoch. Every verb gets a clock: 0 is the
-- server's; tests move it by some microseconds, or let it stand still at a moment (more than 30
-- years of microseconds).
CREATE OR REPLACE FUNCTION taskyard.moment(p_clock bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN p_clock < 1000000000000000
                THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + p_clock
                ELSE p_clock END
$$;

-- lock_room: whoever takes or gives back limited room (a key, a lane with a capacity) does it under
-- this lock, one at a time for a namespace. It is taken before any row is locked, never after.
CREATE OR REPLACE FUNCTION taskyard.lock_room() RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('taskyard.room', 0))
$$;

CREATE OR REPLACE FUNCTION taskyard.try_lock_room() RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT pg_try_advisory_xact_lock(hashtextextended('taskyard.room', 0))
$$;

-- tell: a hint to everyone who listens; the server sends one for a transaction, however often told.
CREATE OR REPLACE FUNCTION taskyard.tell() RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_notify('taskyard.changed', '')
$$;

CREATE OR REPLACE FUNCTION taskyard.note(
    p_now bigint, p_actor text, p_action text, p_subject text, p_detail text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO taskyard.audit (at, actor, action, subject, detail)
    VALUES (p_now, p_actor, p_action, p_subject, p_detail)
$$;
