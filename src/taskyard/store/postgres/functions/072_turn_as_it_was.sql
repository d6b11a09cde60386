-- turn: take_turn for workers of the release before, which expect every list in full.
CREATE OR REPLACE FUNCTION taskyard.turn(
    p_clock bigint, p_nos bigint[], p_attempts integer[], p_leases bigint[], p_results text[],
    p_others json, p_errors text[], p_under bigint[],
    p_lease bigint, p_number bigint, p_room integer, p_want_ahead integer,
    OUT o_accepted bigint[], OUT o_accepted_attempt integer[], OUT o_accepted_lease bigint[],
    OUT o_cancelled bigint[], OUT o_paused bigint[], OUT o_refused text,
    OUT o_no bigint[], OUT o_id text[], OUT o_route integer[], OUT o_lane integer[], OUT o_attempt integer[],
    OUT o_charged integer[], OUT o_max_charged integer[], OUT o_timeout bigint[], OUT o_payload text[],
    OUT o_losses integer[], OUT o_run_at bigint[], OUT o_checkpoint text[], OUT o_now bigint,
    OUT o_ahead bigint[], OUT o_more boolean, OUT o_origins json)
LANGUAGE plpgsql AS $$
DECLARE
    v_turn record;
    v_got  integer;
BEGIN
    SELECT t.* INTO v_turn
      FROM taskyard.take_turn(p_clock, p_nos, p_attempts, p_leases, p_results, p_others, p_errors, p_under,
                              p_lease, p_number, p_room, p_want_ahead) AS t;
    v_got := coalesce(cardinality(v_turn.o_no), 0);
    SELECT v_turn.o_cancelled, v_turn.o_paused, v_turn.o_refused, v_turn.o_no, v_turn.o_id, v_turn.o_payload,
           v_turn.o_run_at, v_turn.o_checkpoint, v_turn.o_now, v_turn.o_more, v_turn.o_origins,
           v_turn.o_accepted, v_turn.o_accepted_attempt, v_turn.o_accepted_lease
      INTO o_cancelled, o_paused, o_refused, o_no, o_id, o_payload, o_run_at, o_checkpoint, o_now, o_more,
           o_origins, o_accepted, o_accepted_attempt, o_accepted_lease;
    IF v_turn.o_ended > 0 AND o_accepted IS NULL THEN
        SELECT array_agg(v.no), array_agg(v.attempt), array_agg(v.lease)
          INTO o_accepted, o_accepted_attempt, o_accepted_lease
          FROM (SELECT DISTINCT ON (u.no) u.no, coalesce(p_attempts[u.at], p_attempts[1]) AS attempt,
                       coalesce(p_leases[u.at], p_leases[1]) AS lease
                  FROM unnest(p_nos) WITH ORDINALITY AS u (no, at) ORDER BY u.no, u.at) AS v;
    END IF;
    IF v_got > 0 THEN
        o_route := taskyard.for_each(v_turn.o_route, v_got);
        o_lane := taskyard.for_each(v_turn.o_lane, v_got);
        o_attempt := taskyard.for_each(v_turn.o_attempt, v_got);
        o_charged := taskyard.for_each(v_turn.o_charged, v_got);
        o_max_charged := taskyard.for_each(v_turn.o_max_charged, v_got);
        o_timeout := taskyard.for_each(v_turn.o_timeout, v_got);
        o_losses := taskyard.for_each(v_turn.o_losses, v_got);
        o_ahead := v_turn.o_no[v_got - coalesce(v_turn.o_ahead, 0) + 1 : v_got];
    END IF;
END
$$;
