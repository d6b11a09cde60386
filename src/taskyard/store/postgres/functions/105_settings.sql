-- set_lane: change a lane as p_change says, a JSON object with what is to be set; a lane that is new is made.
-- Answers how many are queued there if that is too many for another order; then nothing was changed.
CREATE OR REPLACE FUNCTION taskyard.set_lane(
    p_clock bigint, p_name text, p_change jsonb, p_most integer, p_actor text) RETURNS bigint
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now    bigint;
    v_queued bigint;
    v_said   text;
    v_before taskyard.lanes%ROWTYPE;
    v_after  taskyard.lanes%ROWTYPE;
BEGIN
    -- A claim must not find an order, a rate or a limit that is another one meanwhile.
    PERFORM taskyard.lock_room();
    v_now := taskyard.moment(p_clock);
    INSERT INTO taskyard.lanes (name) VALUES (p_name) ON CONFLICT (name) DO NOTHING;
    SELECT * INTO v_before FROM taskyard.lanes AS l WHERE l.name = p_name FOR UPDATE;
    IF v_before.capacity IS NULL AND p_change ->> 'capacity' IS NOT NULL THEN
        -- What claims take of a lane without one, they take outside the lock of the room: those under way
        -- end first and are counted, and those that come then find the capacity.
        PERFORM taskyard.lock_nodes(ARRAY(SELECT n.lease FROM taskyard.nodes AS n));
    END IF;
    IF p_change ?| ARRAY['order', 'ageing'] THEN
        UPDATE taskyard.lanes
           SET lane_order = coalesce(p_change ->> 'order', v_before.lane_order),
               ageing = CASE WHEN p_change ? 'ageing' THEN (p_change ->> 'ageing')::bigint
                             ELSE v_before.ageing END
         WHERE no = v_before.no RETURNING * INTO v_after;
        IF (v_after.lane_order, v_after.ranked, CASE WHEN v_after.ranked THEN v_after.ageing END)
           IS DISTINCT FROM
           (v_before.lane_order, v_before.ranked, CASE WHEN v_before.ranked THEN v_before.ageing END) THEN
            v_queued := (SELECT count(*) FROM taskyard.ready AS r WHERE r.lane = v_before.no)
                      + (SELECT count(*) FROM taskyard.parked AS w
                          WHERE w.lane = v_before.no AND w.no > 0);
            IF v_queued > p_most THEN
                UPDATE taskyard.lanes SET lane_order = v_before.lane_order, ageing = v_before.ageing
                 WHERE no = v_before.no;
                RETURN v_queued;
            END IF;
            PERFORM taskyard.reorder(v_now, v_before.no, v_before.ranked);
        END IF;
        v_said := v_after.lane_order;
        IF v_after.lane_order = 'priority' AND v_after.ranked THEN
            v_said := v_said || ', ageing ' || v_after.ageing / 1e6::double precision || ' s';
        END IF;
    END IF;
    IF p_change ? 'capacity' THEN
        UPDATE taskyard.lanes SET capacity = (p_change ->> 'capacity')::integer WHERE no = v_before.no;
        PERFORM taskyard.note(v_now, p_actor, 'set_capacity', 'lane:' || p_name,
                              coalesce(p_change ->> 'capacity', 'None'));
    END IF;
    IF p_change ? 'max_depth' THEN
        UPDATE taskyard.lanes SET max_depth = (p_change ->> 'max_depth')::integer WHERE no = v_before.no;
        PERFORM taskyard.note(v_now, p_actor, 'set_max_depth', 'lane:' || p_name,
                              coalesce(p_change ->> 'max_depth', 'None'));
    END IF;
    IF p_change ? 'rate' THEN
        UPDATE taskyard.lanes
           SET rate = p_change ->> 'rate', rate_interval = (p_change ->> 'rate_interval')::bigint,
               rate_burst = (p_change ->> 'rate_burst')::integer
         WHERE no = v_before.no RETURNING * INTO v_after;
        PERFORM taskyard.refit_bucket(v_now, v_after);
        PERFORM taskyard.note(v_now, p_actor, 'set_rate', 'lane:' || p_name, p_change ->> 'rate_text');
    END IF;
    IF v_said IS NOT NULL THEN
        PERFORM taskyard.note(v_now, p_actor, 'set_order', 'lane:' || p_name, v_said);
    END IF;
    IF p_change ? 'paused' THEN
        UPDATE taskyard.lanes
           SET paused = (p_change ->> 'paused')::boolean, paused_reason = p_change ->> 'paused_reason',
               paused_until = (p_change ->> 'paused_until')::bigint
         WHERE no = v_before.no;
        PERFORM taskyard.note(v_now, p_actor,
                              CASE WHEN (p_change ->> 'paused')::boolean THEN 'pause' ELSE 'resume' END,
                              'lane:' || p_name, coalesce(p_change ->> 'paused_reason', ''));
    END IF;
    PERFORM taskyard.tell();
    RETURN NULL;
END
$$;

-- refit_bucket: a lane has another rate, or none: say when it opens by that.
CREATE OR REPLACE FUNCTION taskyard.refit_bucket(p_now bigint, p_lane taskyard.lanes) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_full bigint := taskyard.full_at(p_lane.no, '');
BEGIN
    IF p_lane.rate IS NULL THEN
        DELETE FROM taskyard.buckets AS b WHERE b.lane = p_lane.no AND b.key = '';
    ELSIF v_full > p_now THEN
        PERFORM taskyard.set_bucket(
            p_lane.no, '', v_full,
            CASE WHEN taskyard.tokens(p_lane.rate_interval, p_lane.rate_burst, v_full, p_now) = 0
                 THEN taskyard.opens_at(p_lane.rate_interval, p_lane.rate_burst, v_full, p_now) END);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION taskyard.yard_paused(p_now bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT m.value = 'true' FROM taskyard.meta AS m WHERE m.name = 'paused')
       AND coalesce((SELECT nullif(m.value, '')::bigint FROM taskyard.meta AS m WHERE m.name = 'paused_until')
                    > p_now, true);
END
$$;

-- pause_yard: start nothing new in any lane, perhaps until some moment, or go on.
CREATE OR REPLACE FUNCTION taskyard.pause_yard(
    p_clock bigint, p_paused boolean, p_until bigint, p_actor text, p_detail text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE taskyard.meta SET value = p_paused::text WHERE name = 'paused';
    UPDATE taskyard.meta SET value = coalesce(p_until::text, '') WHERE name = 'paused_until';
    PERFORM taskyard.note(taskyard.moment(p_clock), p_actor,
                          CASE WHEN p_paused THEN 'pause' ELSE 'resume' END, 'yard', p_detail);
    PERFORM taskyard.tell();
END
$$;
