-- set_cron: keep an entry in place of one of its name, of which p_old is what the caller has seen (NULL:
-- none); false if that is another one now. When it last fired stays.
CREATE OR REPLACE FUNCTION taskyard.set_cron(
    p_clock bigint, p_name text, p_old text, p_cron text, p_next_at bigint, p_detail text, p_actor text)
RETURNS boolean
LANGUAGE plpgsql
{careful_plans} AS $$
BEGIN
    IF p_old IS NULL THEN
        INSERT INTO taskyard.crons (name, cron, next_at) VALUES (p_name, p_cron, p_next_at)
            ON CONFLICT (name) DO NOTHING;
    ELSE
        UPDATE taskyard.crons SET cron = p_cron, next_at = p_next_at WHERE name = p_name AND cron = p_old;
    END IF;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM taskyard.note(taskyard.moment(p_clock), p_actor, 'set_cron', 'cron:' || p_name, p_detail);
    RETURN true;
END
$$;

-- drop_cron: forget an entry; false if there is none.
CREATE OR REPLACE FUNCTION taskyard.drop_cron(p_clock bigint, p_name text, p_actor text) RETURNS boolean
LANGUAGE plpgsql
{careful_plans} AS $$
BEGIN
    DELETE FROM taskyard.crons WHERE name = p_name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM taskyard.note(taskyard.moment(p_clock), p_actor, 'drop_cron', 'cron:' || p_name, '');
    RETURN true;
END
$$;

-- fire_cron: save these tasks, as enqueue does, and let the entry wait for its next tick, if it still waits
-- for p_due and is not paused; p_last_at is the last tick they are of. Whoever comes second waits here and finds it waiting for another one.
CREATE OR REPLACE FUNCTION taskyard.fire_cron(
    p_name text, p_due bigint, p_next_at bigint, p_last_at bigint,
    p_clock bigint, p_by_no bigint, p_by_attempt integer, p_by_lease bigint,
    p_lanes text[], p_kinds text[], p_requires text[],
    p_id text[], p_lane integer[], p_route integer[], p_priority smallint[], p_max_charged integer[],
    p_timeout bigint[], p_payload text[], p_run_at bigint[], p_delay bigint[], p_deadline bigint[],
    p_keys text[], p_group text[], p_dedup text[], p_until text[], p_clash text[], p_refuse boolean[],
    p_depends text[], p_on_failure text[], p_joined boolean, p_trace text[],
    OUT o_fired boolean, OUT o_stale boolean, OUT o_unknown text, OUT o_left_out bigint[], OUT o_clash text[],
    OUT o_changed boolean[], OUT o_refused bigint[], OUT o_why text[])
LANGUAGE plpgsql
{careful_plans} AS $$
BEGIN
    PERFORM 1 FROM taskyard.crons AS c
      WHERE c.name = p_name AND c.next_at = p_due AND NOT (c.cron::json ->> 'paused')::boolean FOR UPDATE;
    o_fired := FOUND;
    IF NOT o_fired THEN
        RETURN;
    END IF;
    SELECT e.* INTO o_stale, o_unknown, o_left_out, o_clash, o_changed, o_refused, o_why
      FROM taskyard.enqueue(
               p_clock, p_by_no, p_by_attempt, p_by_lease, p_lanes, p_kinds, p_requires, p_id, p_lane, p_route,
               p_priority, p_max_charged, p_timeout, p_payload, p_run_at, p_delay, p_deadline, p_keys, p_group,
               p_dedup, p_until, p_clash, p_refuse, p_depends, p_on_failure, p_joined, p_trace) AS e;
    IF o_unknown IS NULL THEN
        UPDATE taskyard.crons
           SET next_at = p_next_at, last_at = coalesce(p_last_at, last_at)
         WHERE name = p_name;
    END IF;
END
$$;
