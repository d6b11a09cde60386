-- Floors keep claims from reading past the dead rows at the head of an order (migrations/0002 says
-- where those come from). A floor is a guess that may be too high: a transaction that took its place
-- early and commits late appears below it. Three things make up for that: a floor is what was seen
-- one pass ago; whoever puts a task back lowers it; and somebody looks below it every second, and
-- whenever a node finds less than it could run. Where looking is slow it is done for a twentieth of
-- the time, but every minute, and every five seconds by a node that could run more. Without churn there
-- are no floors, and everything is looked at every time.

CREATE OR REPLACE FUNCTION taskyard.wall_clock() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- lock_floors: floors are changed by one at a time. It is the last lock that is waited for: whoever comes
-- to it has the room, the nodes and the dependents it needs. One case is left to the server, which ends
-- one of the two, and to the call, which is repeated: a turn that had to reopen a place and then comes
-- upon a late task with dependents while somebody ends what these depend on too.
CREATE OR REPLACE FUNCTION taskyard.lock_floors() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('taskyard.floors', 0));
END
$$;

CREATE OR REPLACE FUNCTION taskyard.try_lock_floors() RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT pg_try_advisory_xact_lock(hashtextextended('taskyard.floors', 0)));
END
$$;

-- holes: the floor of each lane, route and priority that has one; an index seek each.
CREATE OR REPLACE FUNCTION taskyard.holes() RETURNS SETOF taskyard.floors
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    WITH RECURSIVE hole AS (
        (SELECT f AS floor, f.lane, f.route, f.priority FROM taskyard.floors AS f
          ORDER BY f.lane, f.route, f.priority, f.pass DESC LIMIT 1)
        UNION ALL
        SELECT n.floor, n.lane, n.route, n.priority
          FROM hole AS h
               CROSS JOIN LATERAL (
                   SELECT f AS floor, f.lane, f.route, f.priority FROM taskyard.floors AS f
                    WHERE (f.lane, f.route, f.priority) > (h.lane, h.route, h.priority)
                    ORDER BY f.lane, f.route, f.priority, f.pass DESC LIMIT 1) AS n
    )
    SELECT (h.floor).* FROM hole AS h;
END
$$;

-- set_floor: in place of the one there was (or of none: p_old.pass is NULL). Needs the lock of floors.
CREATE OR REPLACE FUNCTION taskyard.set_floor(
    p_old taskyard.floors, p_lane integer, p_route integer, p_priority smallint,
    p_raised_at bigint, p_safe bigint, p_seen bigint, p_looked_at bigint, p_cost bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO taskyard.floors (lane, route, priority, pass, raised_at, safe, seen, looked_at, cost)
    -- Higher than that of one that was dropped, too: behind its dead rows it would be found late.
    VALUES (p_lane, p_route, p_priority, greatest(coalesce(p_old.pass, 0) + 1, taskyard.wall_clock()),
            p_raised_at, p_safe, p_seen, p_looked_at, p_cost);
    PERFORM taskyard.drop_floor(p_old);
END
$$;

CREATE OR REPLACE FUNCTION taskyard.drop_floor(p_old taskyard.floors) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM taskyard.floors AS f
     WHERE f.lane = p_old.lane AND f.route = p_old.route AND f.priority = p_old.priority
       AND f.pass = p_old.pass;
END
$$;

-- raise_floors: after a claim took many from these lanes, routes and priorities, or took long: let
-- the next ones begin further on. At most ten times a second each. Floors beside them, in the same lane and
-- route, rise with them: who looks for the next task passes by queues, too, that are empty now.
CREATE OR REPLACE FUNCTION taskyard.raise_floors(
    p_lanes integer[], p_routes integer[], p_priorities smallint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_mine  boolean := false;
    v_now   bigint := taskyard.wall_clock();
    v_group record;
BEGIN
    FOR v_group IN
        SELECT d.*
          FROM (SELECT DISTINCT g.lane, g.route, g.priority
                  FROM unnest(p_lanes, p_routes, p_priorities) AS g (lane, route, priority)) AS d
               JOIN taskyard.lanes AS l ON l.no = d.lane
         WHERE NOT l.ranked  -- what comes next may stand before what was seen
           AND (v_now - 100000 < (
                   SELECT f.raised_at FROM taskyard.floors AS f
                    WHERE f.lane = d.lane AND f.route = d.route AND f.priority = d.priority
                    ORDER BY f.pass DESC LIMIT 1)) IS NOT TRUE
    LOOP
        v_mine := v_mine OR taskyard.try_lock_floors();
        EXIT WHEN NOT v_mine;
        PERFORM taskyard.raise_floor(v_now, v_group.lane, v_group.route, v_group.priority);
    END LOOP;
    IF v_mine THEN
        PERFORM taskyard.raise_floor(v_now, h.lane, h.route, h.priority) FROM taskyard.holes() AS h
          WHERE h.lane = ANY (p_lanes) AND h.route = ANY (p_routes);
    END IF;
END
$$;

-- raise_floors_between: the same for the queues of one lane and route from which a claim took, p_first to p_last.
-- Nearly always the first has just been raised, and then so have the others, or they will be within the next tenth
-- of a second.
CREATE OR REPLACE FUNCTION taskyard.raise_floors_between(
    p_parts taskyard.stretch[], p_first smallint, p_last smallint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_lane  integer := (p_parts[1]).lane;
    v_route integer := (p_parts[1]).route;
BEGIN
    IF taskyard.wall_clock() - 100000 < (
        SELECT f.raised_at FROM taskyard.floors AS f
         WHERE f.lane = v_lane AND f.route = v_route AND f.priority = p_first
         ORDER BY f.pass DESC LIMIT 1)
    THEN
        RETURN;
    END IF;
    PERFORM taskyard.raise_floors(array_agg(p.lane), array_agg(p.route), array_agg(p.priority))
       FROM unnest(p_parts) AS p WHERE p.priority BETWEEN p_first AND p_last;
END
$$;

-- raise_floor: unless somebody just has. Needs the lock of floors.
CREATE OR REPLACE FUNCTION taskyard.raise_floor(
    p_now bigint, p_lane integer, p_route integer, p_priority smallint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_below bigint;
    v_seen  bigint;
    v_at    bigint;
    v_cost  bigint;
    v_old   taskyard.floors%ROWTYPE;
BEGIN
    SELECT * INTO v_old FROM taskyard.floors AS f
     WHERE f.lane = p_lane AND f.route = p_route AND f.priority = p_priority
     ORDER BY f.pass DESC LIMIT 1;
    IF v_old.raised_at > p_now - 100000 THEN
        RETURN;
    END IF;
    v_seen := (SELECT s.last_value FROM taskyard.seq AS s);
    v_at := v_old.looked_at;
    v_cost := v_old.cost;
    IF v_old.pass IS NULL OR p_now - v_at > greatest(1000000, least(20 * v_cost, 60000000)) THEN
        v_at := taskyard.wall_clock();
        v_below := (SELECT r.seq FROM taskyard.ready AS r
                     WHERE r.lane = p_lane AND r.route = p_route AND r.priority = p_priority
                       AND r.seq < coalesce(v_old.safe, 9223372036854775807)
                     ORDER BY r.seq LIMIT 1);
        v_cost := taskyard.wall_clock() - v_at;
    END IF;
    v_seen := coalesce(v_below, (
        SELECT r.seq FROM taskyard.ready AS r
         WHERE r.lane = p_lane AND r.route = p_route AND r.priority = p_priority
           AND r.seq >= coalesce(v_old.safe, 9223372036854775807)
         ORDER BY r.seq LIMIT 1), v_seen);
    PERFORM taskyard.set_floor(
        v_old, p_lane, p_route, p_priority, p_now,
        least(coalesce(v_old.seen, 0), v_seen), v_seen, v_at, v_cost);
END
$$;

-- look_below: a node found less than it could run: look below the floors of what it serves (NULL: below
-- all), except where that takes long and was done a moment ago. True if something is there. A floor
-- that saves nothing any more is dropped.
CREATE OR REPLACE FUNCTION taskyard.look_below(p_lease bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_pause bigint := CASE WHEN p_lease IS NULL THEN 60000000 ELSE 5000000 END;
    v_found boolean := false;
    v_first bigint;
    v_at    bigint;
    v_cost  bigint;
    v_floor taskyard.floors%ROWTYPE;
BEGIN
    FOR v_floor IN
        SELECT h.* FROM taskyard.holes() AS h
         WHERE p_lease IS NULL
            OR EXISTS (SELECT 1 FROM taskyard.node_routes AS s WHERE s.lease = p_lease AND s.route = h.route)
    LOOP
        v_at := taskyard.wall_clock();
        CONTINUE WHEN v_floor.cost > 2000 AND v_at - v_floor.looked_at < least(20 * v_floor.cost, v_pause);
        v_first := (SELECT r.seq FROM taskyard.ready AS r
                     WHERE r.lane = v_floor.lane AND r.route = v_floor.route
                       AND r.priority = v_floor.priority AND r.seq < v_floor.safe
                     ORDER BY r.seq LIMIT 1);
        v_cost := taskyard.wall_clock() - v_at;
        IF v_first IS NOT NULL THEN
            PERFORM taskyard.reopen(ARRAY[v_floor.lane], ARRAY[v_floor.route], ARRAY[v_floor.priority],
                                    ARRAY[v_first]);
            v_found := true;
        ELSIF v_cost < 300 AND v_at - v_floor.raised_at > 1000000 THEN
            IF taskyard.try_lock_floors() THEN
                PERFORM taskyard.drop_floor(v_floor);
            END IF;
        ELSIF v_cost > 2000 AND taskyard.try_lock_floors() THEN
            -- If somebody has set it anew meanwhile, that one stands.
            PERFORM taskyard.set_floor(
                f, f.lane, f.route, f.priority, f.raised_at, f.safe, f.seen, v_at, v_cost)
              FROM taskyard.floors AS f
             WHERE f.lane = v_floor.lane AND f.route = v_floor.route AND f.priority = v_floor.priority
               AND f.pass = v_floor.pass;
        END IF;
    END LOOP;
    RETURN v_found;
END
$$;

-- look_around: look below all floors, if nobody has for a second. For claims that found all they could
-- run: what hides in one queue must not wait until the others are empty.
CREATE OR REPLACE FUNCTION taskyard.look_around() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now  bigint := taskyard.wall_clock();
    v_last bigint;
BEGIN
    v_last := (SELECT l.at FROM taskyard.looks AS l ORDER BY l.at DESC LIMIT 1);
    IF v_last BETWEEN v_now - 1000000 AND v_now OR NOT taskyard.try_lock_floors() THEN
        RETURN;
    END IF;
    v_last := (SELECT l.at FROM taskyard.looks AS l ORDER BY l.at DESC LIMIT 1);
    IF v_last BETWEEN v_now - 1000000 AND taskyard.wall_clock() THEN
        RETURN;  -- another has, just now
    END IF;
    DELETE FROM taskyard.looks WHERE at = v_last;
    INSERT INTO taskyard.looks (at) VALUES (v_now);
    IF taskyard.look_below(NULL) THEN
        PERFORM taskyard.tell();
    END IF;
END
$$;

-- reopen: these places are ready again; a floor above one comes down to it. To be called after they
-- were made ready: whoever sets a floor after that sees them.
CREATE OR REPLACE FUNCTION taskyard.reopen(
    p_lanes integer[], p_routes integer[], p_priorities smallint[], p_seqs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_group record;
    v_old   taskyard.floors%ROWTYPE;
BEGIN
    IF p_lanes IS NULL OR NOT EXISTS (SELECT 1 FROM taskyard.floors) THEN
        RETURN;
    END IF;
    PERFORM taskyard.lock_floors();
    FOR v_group IN
        SELECT g.lane, g.route, g.priority, min(g.seq) AS seq
          FROM unnest(p_lanes, p_routes, p_priorities, p_seqs) AS g (lane, route, priority, seq)
         GROUP BY g.lane, g.route, g.priority
    LOOP
        SELECT * INTO v_old FROM taskyard.floors AS f
         WHERE f.lane = v_group.lane AND f.route = v_group.route AND f.priority = v_group.priority
         ORDER BY f.pass DESC LIMIT 1;
        IF v_old.safe > v_group.seq OR v_old.seen > v_group.seq THEN
            PERFORM taskyard.set_floor(
                v_old, v_group.lane, v_group.route, v_group.priority, v_old.raised_at,
                least(v_old.safe, v_group.seq), least(v_old.seen, v_group.seq), v_old.looked_at, v_old.cost);
        END IF;
    END LOOP;
END
$$;
