-- search_exactly: take tasks in lanes with a capacity, a rate or an order of their own, with keys, or that
-- must be looked at one by one: the rule of domain/admission.py, in rounds, until the node is full or nothing eligible is
-- left. What is parked on the way stays parked, so the next claim goes on where this one stopped;
-- where much is parked the sets grow, fourfold each round. First the slots are filled, then what may
-- be claimed ahead. Needs the lock: it keeps out whoever takes or gives back limited room. Rows
-- without limits may still be taken from under it by whoever searches freely, and somebody may be changing one.
-- Who comes upon such a row locks what it looks at from then on, and passes over what it cannot lock.
-- p_parts: the queues as they were seen under the lock, if they were.
CREATE OR REPLACE FUNCTION taskyard.search_exactly(
    p_now bigint, p_lease bigint, p_number bigint, p_slots integer, p_ahead integer, p_parts taskyard.stretch[],
    OUT o_now bigint[], OUT o_later bigint[], OUT o_more boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_slots    integer := p_slots;
    v_ahead    integer := p_ahead;
    v_reach    integer := 1;
    v_want     integer;
    v_cut      boolean;
    v_crowded  boolean := false;  -- others have locked some of what is looked at
    v_free     tid[];             -- then: what is ours
    v_parts    taskyard.stretch[];
    v_seats    taskyard.seat[];
    -- the candidates, in order
    c_place    tid[];
    c_no       bigint[];
    c_lane     bigint[];   -- which of the open lanes
    c_fifo     boolean[];
    c_keys     integer[];  -- how many keys
    c_suspect  boolean[];
    c_late     boolean[];
    l_room     integer[];  -- by open lane; NULL: no limit
    k_at       bigint[];   -- the keys of all candidates, one after the other: which of k_name
    k_name     text[];
    k_room     integer[];
    k_first    integer[];  -- as it was before anyone was admitted
    -- what becomes of them
    t_place    tid[];
    t_now      bigint[];
    t_later    bigint[];
    p_place    tid[];
    p_key      text[];
    v_left     text[];     -- the other keys of those that park
    v_got      bigint[];
    v_dedup    text[];
    v_lanes    integer[];
    v_keys     text[];
    v_any_late boolean;
    v_loose    boolean;    -- some of the candidates could be claimed ahead
    v_simple   boolean;    -- each of them has one key, and that is all
    v_expired  bigint;
    v_end      integer;
    v_begin    integer;
    v_room     integer;
    v_full     bigint;
    v_stop     boolean;
    v_parked   integer;
BEGIN
    o_now := '{}';
    o_later := '{}';
    o_more := false;
    FOR v_round IN 1..8 LOOP
        EXIT WHEN v_slots + v_ahead <= 0;
        o_more := false;
        v_want := least(CASE WHEN v_slots > 0 THEN v_slots ELSE v_ahead END, 500);
        v_parts := CASE WHEN v_round = 1 AND p_parts IS NOT NULL THEN p_parts
                        ELSE taskyard.stretches(p_now, p_lease) END;
        IF EXISTS (SELECT 1 FROM unnest(v_parts) AS s WHERE s.lane_order <> 'priority' OR s.ranked) THEN
            SELECT p.o_parts, p.o_seats INTO v_parts, v_seats
              FROM taskyard.prepare(p_now, p_lease, v_parts, least(v_want * v_reach, 500)) AS p;
        END IF;
        v_simple := false;
        IF v_slots > 0 AND NOT v_crowded AND cardinality(v_parts) = 1 THEN
            SELECT a.o_fits, a.o_start, a.o_nos, a.o_park, a.o_keys, a.o_cut
              INTO v_simple, t_place, t_now, p_place, p_key, v_cut
              FROM taskyard.admit_by_key(
                       p_now, v_parts[1], v_slots,
                       least(least(v_want, coalesce((v_parts[1]).room, v_want)) * v_reach, 500)) AS a;
        END IF;
        IF v_simple THEN
            t_later := '{}'; v_left := '{}'; v_loose := false;
            v_slots := v_slots - cardinality(t_now);
        ELSE
            WITH part AS MATERIALIZED (
                SELECT s.*, s.ranked AND s.priority = 0 AS by_rank, s.lane_order = 'fair' AND s.priority = 0 AS fair,
                       coalesce(s.bound, 9223372036854775807) AS until
                  FROM unnest(v_parts) AS s WHERE s.room IS NULL OR s.room > 0
                 ORDER BY s.lane, s.route, s.priority
            ), open AS MATERIALIZED (
                SELECT s.lane, s.route, s.room, s.fifo, dense_rank() OVER (ORDER BY s.lane) AS lane_at,
                       least(least(v_want, coalesce(s.room, v_want)) * v_reach, 500) AS most
                  FROM (SELECT DISTINCT p.lane, p.route, p.room, p.lane_order = 'fifo' AS fifo FROM part AS p) AS s
            ), found AS MATERIALIZED (
                SELECT o.lane_at, o.most, o.fifo, o.room, r.*,
                       row_number() OVER (PARTITION BY o.lane_at, o.route ORDER BY r.priority, r.rank, r.seq) AS nth
                  FROM open AS o
                       CROSS JOIN LATERAL (
                           SELECT x.*
                             FROM part AS p
                                  CROSS JOIN LATERAL (
                                      (SELECT q.ctid AS place, q.no, q.priority, 0 AS rank, q.seq, q.keys,
                                              q.deadline, q.reason = 'rescued' AS suspect
                                         FROM taskyard.ready AS q
                                        WHERE NOT p.by_rank AND q.lane = p.lane AND q.route = p.route
                                          AND q.priority = p.priority AND q.seq >= p.floor AND q.seq < p.until
                                        ORDER BY q.seq LIMIT o.most)
                                      UNION ALL
                                      (SELECT q.ctid, q.no, q.priority, q.rank, q.seq, q.keys, q.deadline,
                                              q.reason = 'rescued'
                                         FROM taskyard.ready AS q
                                        WHERE p.by_rank AND NOT p.fair AND q.lane = p.lane AND q.route = p.route
                                          AND q.rank IS NOT NULL
                                        ORDER BY q.rank, q.seq LIMIT o.most)
                                      UNION ALL
                                      (SELECT q.ctid, q.no, q.priority, s.rank, s.seq, q.keys, q.deadline,
                                              q.reason = 'rescued'
                                         FROM unnest(v_seats) AS s
                                              -- One by one: joined, while nobody has analyzed the table, the
                                              -- whole lane is read.
                                              CROSS JOIN LATERAL (
                                                  SELECT t.ctid, t.* FROM taskyard.ready AS t
                                                   WHERE t.lane = s.lane AND t.route = s.route AND t.priority = 0
                                                     AND t.seq = s.own LIMIT 1) AS q
                                        WHERE p.fair AND s.lane = p.lane AND s.route = p.route
                                        ORDER BY s.rank, s.seq LIMIT o.most)) AS x
                            WHERE p.lane = o.lane AND p.route = o.route
                            LIMIT o.most) AS r
            ), horizon AS MATERIALIZED (
                -- Where a route was not read to its end, what follows in its lane may have come after it.
                SELECT DISTINCT ON (f.lane_at) f.lane_at, f.priority, f.rank, f.seq
                  FROM found AS f WHERE f.nth = f.most
                 ORDER BY f.lane_at, f.priority, f.rank, f.seq
            ), ordered AS MATERIALIZED (
                -- The heads of all lanes, then their seconds, …; the number rotates who is first.
                SELECT f.*, row_number() OVER (
                           ORDER BY f.turn, mod(f.lane_at - 1 - mod(p_number, f.lanes) + f.lanes, f.lanes)) AS at
                  FROM (SELECT g.*, row_number() OVER (PARTITION BY g.lane_at ORDER BY g.priority, g.rank, g.seq) AS turn,
                               (SELECT max(o.lane_at) FROM open AS o) AS lanes
                          FROM found AS g LEFT JOIN horizon AS h ON h.lane_at = g.lane_at
                         WHERE h.seq IS NULL OR (g.priority, g.rank, g.seq) <= (h.priority, h.rank, h.seq)) AS f
            ), carried AS MATERIALIZED (
                SELECT o.at, k.key, k.nth, dense_rank() OVER (ORDER BY k.key COLLATE "C") AS i
                  FROM ordered AS o CROSS JOIN LATERAL unnest(o.keys) WITH ORDINALITY AS k (key, nth)
                 WHERE o.keys IS NOT NULL
            )
            SELECT array_agg(x.place), array_agg(x.no), array_agg(x.lane_at), array_agg(x.fifo),
                   array_agg(coalesce(cardinality(x.keys), 0)), array_agg(x.suspect),
                   array_agg(coalesce(x.deadline <= p_now, false)), bool_or(coalesce(x.deadline <= p_now, false)),
                   (SELECT array_agg(c.i ORDER BY c.at, c.nth) FROM carried AS c),
                   (SELECT array_agg(d.key ORDER BY d.i) FROM (SELECT DISTINCT c.i, c.key FROM carried AS c) AS d),
                   (SELECT array_agg(l.room ORDER BY l.lane_at)
                      FROM (SELECT DISTINCT o.lane_at, o.room FROM open AS o) AS l),
                   EXISTS (SELECT 1 FROM found AS f WHERE f.nth = f.most),
                   bool_or(x.room IS NULL AND x.keys IS NULL AND NOT x.suspect)
              INTO c_place, c_no, c_lane, c_fifo, c_keys, c_suspect, c_late, v_any_late, k_at, k_name, l_room, v_cut,
                   v_loose
              FROM (SELECT * FROM ordered ORDER BY ordered.at) AS x;
            EXIT WHEN c_no IS NULL;

            IF v_any_late THEN
                SELECT e.o_keys, e.o_count INTO v_keys, v_expired
                  FROM taskyard.expire_ready(p_now, ARRAY(
                           SELECT u.place FROM unnest(c_place, c_late) AS u (place, late) WHERE u.late)) AS e;
                IF v_expired > 0 THEN
                    PERFORM taskyard.passed_over(p_now, v_keys);
                    o_more := true;
                    CONTINUE;  -- whoever waited behind them, or depended on them, comes before what follows
                END IF;
                v_crowded := true;
            END IF;
            IF v_crowded THEN
                v_free := ARRAY(SELECT r.ctid FROM taskyard.ready AS r
                                 WHERE r.ctid = ANY (c_place) FOR UPDATE SKIP LOCKED);
                IF cardinality(v_free) < cardinality(c_place) THEN
                    o_more := v_cut AND v_reach < 500;
                    v_reach := least(v_reach * 4, 500);
                END IF;
            END IF;

            k_room := taskyard.key_rooms(p_now, k_name);
            k_first := k_room;
            t_place := '{}'; t_now := '{}'; t_later := '{}'; p_place := '{}'; p_key := '{}'; v_left := '{}';
            v_end := 0;
            v_stop := false;
            FOR i IN 1..cardinality(c_no) LOOP
                v_begin := v_end + 1;
                v_end := v_end + c_keys[i];
                CONTINUE WHEN c_late[i] OR v_crowded AND NOT c_place[i] = ANY (v_free);
                v_room := l_room[c_lane[i]];
                CONTINUE WHEN v_room <= 0;
                IF v_slots = 0 THEN
                    EXIT WHEN v_ahead = 0;
                    CONTINUE WHEN v_room IS NOT NULL OR c_keys[i] > 0 OR c_suspect[i];
                    v_ahead := v_ahead - 1;
                    t_later := array_append(t_later, c_no[i]);
                    t_place := array_append(t_place, c_place[i]);
                    CONTINUE;
                END IF;
                v_full := NULL;
                FOR j IN v_begin..v_end LOOP
                    IF k_room[k_at[j]] <= 0 THEN
                        v_full := k_at[j];
                        EXIT;
                    END IF;
                END LOOP;
                IF v_full IS NOT NULL AND c_fifo[i] THEN
                    l_room[c_lane[i]] := 0;  -- the head or nothing, and nothing is parked
                    CONTINUE;
                END IF;
                IF v_full IS NOT NULL THEN
                    p_place := array_append(p_place, c_place[i]);
                    p_key := array_append(p_key, k_name[v_full]);
                    FOR j IN v_begin..v_end LOOP
                        CONTINUE WHEN k_at[j] = v_full;
                        v_left := array_append(v_left, k_name[k_at[j]]);
                        -- It leaves room in another key to those who wait for that one. They are not
                        -- among the candidates yet, but come before whatever follows.
                        v_stop := v_stop OR k_first[k_at[j]] > 0 AND EXISTS (
                            SELECT 1 FROM taskyard.parked AS w WHERE w.key = k_name[k_at[j]]);
                    END LOOP;
                    CONTINUE;
                END IF;
                CONTINUE WHEN v_stop;  -- nothing starts any more in this round, but more may park
                v_slots := v_slots - 1;
                t_now := array_append(t_now, c_no[i]);
                t_place := array_append(t_place, c_place[i]);
                IF v_room IS NOT NULL THEN
                    l_room[c_lane[i]] := v_room - 1;
                END IF;
                FOR j IN v_begin..v_end LOOP
                    k_room[k_at[j]] := k_room[k_at[j]] - 1;
                END LOOP;
            END LOOP;
        END IF;

        WITH locked AS MATERIALIZED (
            SELECT r.ctid AS place FROM taskyard.ready AS r
             WHERE r.ctid = ANY (t_place) FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM taskyard.ready WHERE ctid = ANY (ARRAY(SELECT l.place FROM locked AS l)) RETURNING *
        ), started AS (
            INSERT INTO taskyard.running (no, lease, request, started_at, attempt, lane, charged, losses,
                                          keys, dedup, rank)
            SELECT g.no, p_lease, p_number, CASE WHEN g.no = ANY (t_later) THEN NULL ELSE p_now END,
                   g.attempt + 1, g.lane, g.charged, g.losses, g.keys, g.dedup, g.rank
              FROM gone AS g
        ), holds AS (
            INSERT INTO taskyard.held (key, no)
            SELECT k.key, g.no FROM gone AS g CROSS JOIN LATERAL unnest(g.keys) AS k (key)
        )
        SELECT array_agg(g.no), array_agg(g.dedup) FILTER (WHERE g.dedup IS NOT NULL), array_agg(g.lane),
               (SELECT array_agg(k.key) FROM gone AS h CROSS JOIN LATERAL unnest(h.keys) AS k (key))
          INTO v_got, v_dedup, v_lanes, v_keys FROM gone AS g;
        IF coalesce(cardinality(v_got), 0) < cardinality(t_place) THEN
            -- Another claimer was faster with some that have no limits, or somebody is changing one.
            v_crowded := true;
            o_more := true;
            v_slots := v_slots + cardinality(t_now);
            v_ahead := v_ahead + cardinality(t_later);
            t_now := ARRAY(SELECT u.no FROM unnest(t_now) WITH ORDINALITY AS u (no, at)
                            WHERE u.no = ANY (v_got) ORDER BY u.at);
            t_later := ARRAY(SELECT u.no FROM unnest(t_later) WITH ORDINALITY AS u (no, at)
                              WHERE u.no = ANY (v_got) ORDER BY u.at);
            v_slots := v_slots - cardinality(t_now);
            v_ahead := v_ahead - cardinality(t_later);
        END IF;
        PERFORM taskyard.free_started(v_dedup, v_got);
        PERFORM taskyard.take_tokens(p_now, v_lanes, v_keys);
        o_now := o_now || t_now;
        o_later := o_later || t_later;

        IF cardinality(p_place) > 0 THEN
            v_reach := least(v_reach * 4, 500);
            WITH blocked AS MATERIALIZED (
                SELECT v.key, r.*
                  FROM unnest(p_place, p_key) AS v (place, key)
                       CROSS JOIN LATERAL (
                           SELECT q.ctid AS place, * FROM taskyard.ready AS q
                            WHERE q.ctid = v.place FOR UPDATE SKIP LOCKED) AS r
            ), gone AS (
                DELETE FROM taskyard.ready WHERE ctid = ANY (ARRAY(SELECT b.place FROM blocked AS b))
            )
            INSERT INTO taskyard.parked (key, seq, no, lane, route, attempt, charged, losses, priority,
                                         special, reason, keys, dedup, deadline, node, rank, grp, urgency)
            SELECT b.key, b.seq, b.no, b.lane, b.route, b.attempt, b.charged, b.losses, b.priority,
                   b.special, b.reason, b.keys, b.dedup, b.deadline, b.node, b.rank, b.grp, b.urgency
              FROM blocked AS b;
            GET DIAGNOSTICS v_parked = ROW_COUNT;
            v_crowded := v_crowded OR v_parked < cardinality(p_place);
            o_more := true;
            PERFORM taskyard.watch_keys(p_now, p_key);
            -- Those behind them may have the same keys and move as they did: in sets that grow.
            PERFORM taskyard.passed_over(p_now, v_left, least(v_reach, 200));
        END IF;
        -- A set from which nothing was taken would be the same again.
        EXIT WHEN NOT o_more AND v_got IS NULL;
        -- Where all have keys, it is cheaper to see that none may be claimed ahead than to weigh each of them.
        EXIT WHEN v_slots = 0 AND NOT v_loose AND NOT EXISTS (
            SELECT 1
              FROM unnest(v_parts) AS p
                   CROSS JOIN LATERAL (
                       SELECT q.special FROM taskyard.ready AS q
                        WHERE q.lane = p.lane AND q.route = p.route AND q.priority = p.priority
                          AND q.seq >= p.floor
                        ORDER BY q.seq LIMIT least(v_ahead, 500)) AS x
             WHERE p.room IS NULL AND NOT x.special);
        o_more := o_more OR v_cut OR v_slots = 0 AND v_ahead > 0;
        EXIT WHEN NOT o_more;
    END LOOP;
    o_more := o_more AND v_slots > 0;
    IF v_crowded AND cardinality(o_now || o_later) > 0 THEN
        PERFORM taskyard.tell();  -- others may have passed over what was locked here and is left
    END IF;
END
$$;
