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

-- pass_tick: let an entry wait for its next tick, if it still waits for p_due and is not paused. Whoever
-- comes second finds it waiting for another one. p_fires: something is started.
CREATE OR REPLACE FUNCTION taskyard.pass_tick(p_name text, p_due bigint, p_next_at bigint, p_fires boolean)
RETURNS boolean
LANGUAGE plpgsql
{careful_plans} AS $$
BEGIN
    UPDATE taskyard.crons
       SET next_at = p_next_at, last_at = CASE WHEN p_fires THEN p_due ELSE last_at END
     WHERE name = p_name AND next_at = p_due AND NOT (cron::json ->> 'paused')::boolean;
    RETURN FOUND;
END
$$;
