-- Functions are in PL/pgSQL even where one statement would do: it keeps the plans of a session, where
-- LANGUAGE sql makes them anew at every call. But for those that are one expression: these become a part of
-- whatever names them, and are not called at all.

-- moment: the server's time in microseconds since the epoch. Every verb gets a clock: 0 is the
-- server's; tests move it by some microseconds, or let it stand still at a moment (more than 30
-- years of microseconds).
CREATE OR REPLACE FUNCTION taskyard.moment(p_clock bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN p_clock < 1000000000000000
                THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + p_clock
                ELSE p_clock END
$$;

-- require_read_committed: whoever waits for a lock must then see what the one before has committed. At
-- a higher isolation a transaction goes on seeing what it saw at first, and would count room that is
-- taken.
CREATE OR REPLACE FUNCTION taskyard.require_read_committed() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'Taskyard needs transactions that are READ COMMITTED, and this one is %',
                        upper(current_setting('transaction_isolation'))
              USING ERRCODE = 'inappropriate_isolation_level_for_branch_transaction';
    END IF;
END
$$;

-- lock_room: whoever takes or gives back limited room (a key, a lane with a capacity) does it under
-- this lock, one at a time for a namespace. It is taken before any row is locked, never after.
CREATE OR REPLACE FUNCTION taskyard.lock_room() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM taskyard.require_read_committed(), pg_advisory_xact_lock(hashtextextended('taskyard.room', 0));
END
$$;

CREATE OR REPLACE FUNCTION taskyard.try_lock_room() RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM taskyard.require_read_committed();
    RETURN (
        SELECT pg_try_advisory_xact_lock(hashtextextended('taskyard.room', 0)));
END
$$;

-- wait_at_most: how long this transaction waits for each lock from now on; answers how long it did. For
-- whoever holds the room and comes to a row that a caller's transaction may hold: he gives up soon, and
-- his call is to be repeated.
CREATE OR REPLACE FUNCTION taskyard.wait_at_most(p_limit text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_before text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', p_limit, true);
    RETURN v_before;
END
$$;

-- lock_names: the same lock for one who makes names and counts no room: a transaction of a caller's,
-- whatever its isolation. What it may have missed is mended by serve_new_routes.
CREATE OR REPLACE FUNCTION taskyard.lock_names() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('taskyard.room', 0));
END
$$;

-- lock_lane: whoever adds to a lane in which order or depth must be exact does it alone. A caller's
-- transaction may hold it for long, so it is only ever waited for by those who enqueue: never by whoever
-- holds the room.
CREATE OR REPLACE FUNCTION taskyard.lock_lane(p_lane integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('taskyard.lane.' || p_lane, 0));
END
$$;

-- lock_group: the same for a group of a fair lane; some groups share a lock, so that a call that names
-- many holds few.
CREATE OR REPLACE FUNCTION taskyard.lock_group(p_lane integer, p_share integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('taskyard.group.' || p_lane, p_share));
END
$$;

-- tell: a hint to everyone who listens; the server sends one for a transaction, however often told. Every
-- finish tells: whoever waits for a result in another process is woken by it. Listeners take hints that
-- come together for one.
CREATE OR REPLACE FUNCTION taskyard.tell() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_notify('taskyard.changed', '');
END
$$;

CREATE OR REPLACE FUNCTION taskyard.note(
    p_now bigint, p_actor text, p_action text, p_subject text, p_detail text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO taskyard.audit (at, actor, action, subject, detail)
    VALUES (p_now, p_actor, p_action, p_subject, p_detail);
END
$$;
