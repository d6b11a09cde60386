-- take_turn: finish, then claim, in one step. Without verdicts it is a claim, without a lease (NULL) it is
-- a finish. Locks are taken in one order: the room, if anything of this could be limited; the nodes;
-- the rows of what runs; the rows of what is ready; the floors.
-- o_ended says how many attempts were ended. Where these are all there were and all completed, they are not
-- listed. Of what was claimed the last o_ahead are claimed ahead; in a list that is shorter than that of the
-- numbers, one stands for all. Its plans are made without two things that cost more to set up than they save here,
-- where little is looked up twice and no set is large.
CREATE OR REPLACE FUNCTION taskyard.take_turn(
    p_clock bigint, p_nos bigint[], p_attempts integer[], p_leases bigint[], p_results text[],
    p_others json, p_errors text[], p_under bigint[],
    p_lease bigint, p_number bigint, p_room integer, p_want_ahead integer,
    OUT o_ended integer, OUT o_accepted bigint[], OUT o_accepted_attempt integer[],
    OUT o_accepted_lease bigint[], OUT o_cancelled bigint[], OUT o_paused bigint[], OUT o_refused text,
    OUT o_no bigint[], OUT o_id text[], OUT o_route integer[], OUT o_lane integer[], OUT o_attempt integer[],
    OUT o_charged integer[], OUT o_max_charged integer[], OUT o_timeout bigint[], OUT o_payload text[],
    OUT o_losses integer[], OUT o_run_at bigint[], OUT o_checkpoint text[], OUT o_now bigint,
    OUT o_ahead integer, OUT o_more boolean, OUT o_origins json)
LANGUAGE plpgsql
{careful_plans}
SET enable_memoize = off
SET enable_bitmapscan = off AS $$
DECLARE
    v_now        bigint;
    v_began      bigint;
    v_took       bigint;
    v_locked     boolean := false;
    v_blindly    boolean := false;  -- without a look at what waits
    v_freely     boolean := true;   -- what can be taken is limited by nothing but numbers
    v_room       integer;           -- of the one lane it is of; NULL: no such limit
    v_parts      taskyard.stretch[];
    v_last       taskyard.stretch;
    v_found      record;
    v_want       integer;
    v_starts     integer;
    v_stream     boolean := false;  -- all from one lane and route
    v_freed      bigint[];
    v_unsaid     bigint[];   -- the leases of those whose verdict says none
    v_node       record;
    v_ended      integer := 0;  -- bodies of this lease
    v_begun      integer := 0;
    v_free       integer;
    v_slots      integer;
    v_ahead      integer;
    v_taken      bigint[];
    v_got        integer := 0;
    v_priorities smallint[];
BEGIN
    IF cardinality(p_nos) > 0 THEN
        -- Whoever ends what ran in a limited lane takes the next of it, most likely.
        SELECT r.keys IS NOT NULL,
               r.keys IS NULL AND p_lease IS NOT NULL
               AND (l.capacity IS NOT NULL OR l.rate_interval IS NOT NULL OR l.ordered)
          INTO v_locked, v_blindly
          FROM taskyard.running AS r JOIN taskyard.lanes AS l ON l.no = r.lane
         WHERE r.no = p_nos[1];
        v_blindly := coalesce(v_blindly, false);
        v_locked := coalesce(v_locked, false) OR v_blindly;
    END IF;
    IF NOT v_locked AND (cardinality(p_nos) > 0 OR p_others IS NOT NULL) THEN
        -- Where nobody holds a key, none of these does.
        IF EXISTS (SELECT 1 FROM taskyard.held) THEN
            v_locked := EXISTS (
                SELECT 1
                  FROM (SELECT u.no FROM unnest(p_nos) AS u (no)
                         UNION ALL SELECT o.no FROM json_to_recordset(p_others) AS o (no bigint)) AS v
                       CROSS JOIN LATERAL (
                           SELECT r.keys FROM taskyard.running AS r WHERE r.no = v.no OFFSET 0) AS r
                 WHERE r.keys IS NOT NULL);
        END IF;
    END IF;
    IF p_lease IS NOT NULL AND NOT v_locked THEN
        -- Whoever brings verdicts brings room, most likely: it is counted under the lock then.
        v_parts := taskyard.stretches(taskyard.moment(p_clock), p_lease, coalesce(cardinality(p_nos) > 0, false));
        v_locked := taskyard.needs_lock(v_parts, least(p_room + p_want_ahead, 500))
                 OR taskyard.give_back_room(v_parts, p_nos, p_others);
    END IF;
    IF 0 = ANY (p_under) THEN
        v_unsaid := ARRAY(
            SELECT r.lease
              FROM (SELECT u.no FROM unnest(p_nos) AS u (no)
                     UNION ALL SELECT o.no FROM json_to_recordset(p_others) AS o (no bigint)) AS v
                   CROSS JOIN LATERAL (
                       SELECT r.lease FROM taskyard.running AS r WHERE r.no = v.no OFFSET 0) AS r);
    END IF;
    IF v_locked THEN
        PERFORM taskyard.lock_room();
    END IF;
    IF p_under = ARRAY[p_lease] THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('taskyard.node', p_lease));
    ELSE
        PERFORM taskyard.lock_nodes(p_under || p_lease || v_unsaid);
    END IF;
    v_now := taskyard.moment(p_clock);
    o_now := v_now;

    IF cardinality(p_nos) > 0 OR p_others IS NOT NULL THEN
        SELECT e.* INTO o_accepted, o_accepted_attempt, o_accepted_lease, o_cancelled, o_paused, v_freed
          FROM taskyard.end_attempts(v_now, p_nos, p_attempts, p_leases, p_results, p_others, p_errors) AS e;
        o_ended := coalesce(cardinality(o_accepted), 0);
        IF o_ended > 0 THEN
            PERFORM pg_notify('taskyard.changed', '');
            IF o_accepted_attempt IS NULL THEN
                o_accepted := NULL;
            END IF;
        END IF;
        IF v_freed IS NOT NULL THEN
            -- What this lease gave back is written down with what it takes.
            v_ended := coalesce(cardinality(array_positions(v_freed, p_lease)), 0);
            IF v_ended < cardinality(v_freed) THEN
                PERFORM taskyard.lighten(array_remove(v_freed, p_lease));
            END IF;
        END IF;
        IF p_lease IS NOT NULL AND NOT v_locked AND (
            p_others IS NOT NULL
            OR EXISTS (SELECT 1 FROM taskyard.dependencies)
               AND EXISTS (SELECT 1 FROM taskyard.dependencies AS d WHERE d.on_no = ANY (p_nos))) THEN
            v_parts := taskyard.stretches(v_now, p_lease);  -- they may have come back, or let others go
        END IF;
    END IF;
    IF p_lease IS NULL THEN
        RETURN;
    END IF;

    -- Claims of one lease go one after the other, and none while the lease is being taken away.
    SELECT n.id, n.state, n.slots, n.until > v_now AS alive, l.entry, l.number, l.running - v_ended AS running, l.since,
           EXISTS (SELECT 1 FROM taskyard.nodes AS o WHERE o.id = n.id AND o.lease > n.lease) AS superseded,
           (SELECT m.value FROM taskyard.meta AS m WHERE m.name = 'paused') = 'true' AS paused,
           EXISTS (SELECT 1 FROM taskyard.floors) AS has_floors,
           (SELECT k.at FROM taskyard.looks AS k ORDER BY k.at DESC LIMIT 1) AS looked_at
      INTO v_node
      FROM taskyard.nodes AS n
           LEFT JOIN LATERAL (
               SELECT a.entry, a.number, a.running, a.since FROM taskyard.loads AS a WHERE a.lease = p_lease
                ORDER BY a.entry DESC LIMIT 1) AS l ON true
     WHERE n.lease = p_lease;
    o_more := false;
    IF NOT FOUND THEN
        o_refused := 'this lease has ended';
        RETURN;
    END IF;
    IF v_node.number >= p_number THEN
        SELECT array_agg(x.no), count(*) FILTER (WHERE x.started_at IS NULL) INTO v_taken, o_ahead
          FROM (SELECT r.no, r.started_at FROM taskyard.running AS r
                       CROSS JOIN LATERAL (SELECT * FROM taskyard.tasks AS a WHERE a.no = r.no OFFSET 0) AS t
                 WHERE r.lease = p_lease AND r.request = p_number
                 ORDER BY r.started_at IS NULL, r.rank, t.priority, t.seq) AS x;
    ELSE
        o_refused := CASE
            WHEN NOT v_node.alive THEN 'this lease has run out'
            WHEN v_node.superseded THEN 'a newer incarnation of this node has registered'
            WHEN v_node.state <> 'ready' THEN 'this node is ' || v_node.state
            WHEN v_node.paused AND taskyard.yard_paused(v_now) THEN 'the yard is paused'
        END;
        v_free := greatest(0, least(p_room, v_node.slots - v_node.running));
        -- No more than 500 at a time: the answer is one row, and payloads may be large.
        v_slots := least(v_free, 500);
        v_ahead := least(p_want_ahead, 500 - v_slots);
        IF o_refused IS NULL AND v_slots + v_ahead > 0 THEN
            v_began := taskyard.wall_clock();
            IF v_locked THEN
                -- Anew: others may have come while the lock was waited for, or with what has ended here.
                v_parts := taskyard.stretches(v_now, p_lease, true);
                v_room := taskyard.counted_room(v_parts);
                IF v_room <= 0 OR v_room IS NULL AND (v_parts[1]).room IS NOT NULL THEN
                    v_parts := taskyard.with_room(v_now, v_parts);
                    v_room := NULL;
                END IF;
                v_freely := v_room IS NOT NULL
                         OR v_blindly AND NOT taskyard.needs_lock(v_parts, v_slots + v_ahead);
            END IF;
            IF NOT v_freely AND cardinality(v_parts) = 1 THEN
                v_found := taskyard.take_by_key(v_now, p_lease, p_number, v_slots, v_ahead, v_parts[1]);
                v_starts := v_slots;
                v_want := v_slots;
            ELSIF v_freely AND v_parts IS NOT NULL THEN
                v_starts := least(v_slots, v_room);
                v_want := v_starts + CASE WHEN v_room IS NULL THEN v_ahead ELSE 0 END;
                v_last := v_parts[cardinality(v_parts)];
                v_stream := (v_parts[1]).lane = v_last.lane AND (v_parts[1]).route = v_last.route;
                IF v_stream THEN
                    v_found := taskyard.take_from_stream(
                        v_now, p_lease, p_number, v_starts, v_want, v_parts, v_room IS NOT NULL);
                ELSE
                    v_found := taskyard.take_from_streams(
                        v_now, p_lease, p_number, v_starts, v_want, v_parts, v_room IS NOT NULL);
                END IF;
            END IF;
            IF v_starts IS NOT NULL THEN
                o_no := v_found.o_no;
                o_id := v_found.o_id;
                o_route := v_found.o_route;
                o_lane := v_found.o_lane;
                o_attempt := v_found.o_attempt;
                o_charged := v_found.o_charged;
                o_max_charged := v_found.o_max_charged;
                o_timeout := v_found.o_timeout;
                o_payload := v_found.o_payload;
                o_losses := v_found.o_losses;
                o_run_at := v_found.o_run_at;
                o_origins := v_found.o_origins;
                v_priorities := v_found.o_priority;
                v_got := coalesce(cardinality(o_no), 0);
                v_begun := least(v_got, v_slots);
                o_ahead := v_got - v_begun;
                IF v_found.o_dedup IS NOT NULL THEN
                    PERFORM taskyard.free_started(v_found.o_dedup, o_no);
                END IF;
                IF v_found.o_late IS NOT NULL THEN
                    PERFORM taskyard.expire_ready(v_now, v_found.o_late);
                END IF;
                -- Less than asked for although a special or limited task is there: the next claim looks at it
                -- under the lock.
                o_more := v_got < v_starts
                    AND (v_found.o_cut OR coalesce(v_found.o_limited, false) OR v_found.o_late IS NOT NULL
                         OR v_got = v_want);
            END IF;
            IF v_locked AND v_got = 0 AND (o_more OR v_room IS NULL) THEN
                SELECT s.o_now || s.o_later, cardinality(s.o_later), s.o_more, cardinality(s.o_now)
                  INTO v_taken, o_ahead, o_more, v_begun
                  FROM taskyard.search_exactly(
                           v_now, p_lease, p_number, v_slots, v_ahead,
                           CASE WHEN v_room IS NULL THEN v_parts END) AS s;
                v_got := cardinality(v_taken);
                IF v_starts IS NOT NULL THEN
                    IF v_begun < v_found.o_locked THEN
                        PERFORM taskyard.tell();  -- others may have passed over what was locked and is left
                    END IF;
                END IF;
            END IF;
            o_more := o_more OR v_free > v_slots AND v_got >= v_slots;
            v_took := taskyard.wall_clock() - v_began;
        END IF;
    END IF;
    IF v_got > 0 OR v_ended > 0 THEN
        PERFORM taskyard.write_load(
            p_lease, v_node.entry, CASE WHEN v_got > 0 THEN p_number ELSE v_node.number END,
            v_node.running + v_begun, CASE WHEN v_got > 0 AND mod(p_number, 4) = 0
                                           THEN taskyard.first_claim(p_lease, v_node.since) ELSE v_node.since END);
    END IF;
    IF v_took IS NOT NULL AND v_node.has_floors THEN
        IF v_got < v_slots AND NOT o_more THEN
            o_more := taskyard.look_below(p_lease);
        ELSIF v_node.looked_at BETWEEN v_began - 1000000 AND v_began THEN
            NULL;
        ELSE
            PERFORM taskyard.look_around();
        END IF;
    END IF;
    IF cardinality(v_taken) > 0 THEN
        SELECT s.* INTO o_no, o_id, o_route, o_lane, o_attempt, o_charged, o_max_charged, o_timeout,
                        o_payload, o_losses, o_run_at, v_priorities, o_origins
          FROM taskyard.load(v_taken) AS s;
    END IF;
    IF o_attempt <> '{1}' THEN  -- else none has had an attempt before
        o_checkpoint := taskyard.checkpoints_of(o_no);
    END IF;
    IF v_got >= 20 AND v_stream AND v_taken IS NULL THEN
        PERFORM taskyard.raise_floors_between(v_parts, v_priorities[1], v_priorities[2]);
    ELSIF v_got >= 20 AND cardinality(v_parts) = 1 THEN
        PERFORM taskyard.raise_floors_between(v_parts, (v_parts[1]).priority, (v_parts[1]).priority);
    ELSIF v_got >= 20 THEN
        PERFORM taskyard.raise_floors(o_lane, o_route, v_priorities);
    ELSIF v_took > 2000 + 50 * v_got THEN
        v_parts := coalesce(v_parts, taskyard.stretches(v_now, p_lease));
        IF v_took > 2000 + 50 * (v_got + cardinality(v_parts)) THEN
            -- Too long for what it took and where it looked: dead rows, or many that were parked.
            PERFORM taskyard.raise_floors(array_agg(s.lane), array_agg(s.route), array_agg(s.priority))
               FROM unnest(v_parts) AS s;
        END IF;
    END IF;
END
$$;
