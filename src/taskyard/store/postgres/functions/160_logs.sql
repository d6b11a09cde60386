-- append_logs: keep what these attempts have said, and drop what is kept no longer: of each attempt the lines
-- before p_firsts, of its task those of attempts before p_oldest. p_of says to which attempt, from 1, a line
-- belongs. A line that is here already was said again, after a lost answer. Answers which of the attempts are
-- the accepted ones; of the others nothing is kept.
CREATE OR REPLACE FUNCTION taskyard.append_logs(
    p_clock bigint, p_nos bigint[], p_attempts integer[], p_leases bigint[], p_firsts integer[], p_oldest integer[],
    p_of integer[], p_numbers integer[], p_ages bigint[], p_levels text[], p_texts text[]) RETURNS integer[]
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now      bigint := taskyard.moment(p_clock);
    v_accepted integer[];
BEGIN
    SELECT array_agg(h.at::integer) INTO v_accepted
      FROM (SELECT v.at
              FROM unnest(p_nos, p_attempts, p_leases) WITH ORDINALITY AS v (no, attempt, lease, at)
                   JOIN taskyard.running AS r ON r.no = v.no
             WHERE r.attempt = v.attempt AND (v.lease = 0 OR r.lease = v.lease)
             ORDER BY v.no FOR KEY SHARE OF r) AS h;
    IF v_accepted IS NULL THEN
        RETURN '{}';
    END IF;
    INSERT INTO taskyard.logs (no, at, attempt, number, level, text)
    SELECT p_nos[l.at], v_now - l.age, p_attempts[l.at], l.number, l.level, l.text
      FROM unnest(p_of, p_numbers, p_ages, p_levels, p_texts) AS l (at, number, age, level, text)
     WHERE l.at = ANY (v_accepted)
        ON CONFLICT DO NOTHING;
    -- An attempt that has said little, one of the first of its task, has left nothing to drop.
    IF 1 < ANY (p_firsts) THEN
        DELETE FROM taskyard.logs AS l
         USING unnest(v_accepted) AS a (at)
         WHERE l.no = p_nos[a.at] AND l.attempt = p_attempts[a.at] AND l.number < p_firsts[a.at];
    END IF;
    IF 1 < ANY (p_oldest) THEN
        DELETE FROM taskyard.logs AS l
         USING unnest(v_accepted) AS a (at)
         WHERE l.no = p_nos[a.at] AND l.attempt < p_oldest[a.at];
    END IF;
    RETURN v_accepted;
END
$$;

-- import_logs: take lines over from another store; what is here already stays.
CREATE OR REPLACE FUNCTION taskyard.import_logs(
    p_nos bigint[], p_ats bigint[], p_attempts integer[], p_numbers integer[], p_levels text[], p_texts text[])
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO taskyard.logs (no, at, attempt, number, level, text)
    SELECT l.no, l.at, l.attempt, l.number, l.level, l.text
      FROM unnest(p_nos, p_ats, p_attempts, p_numbers, p_levels, p_texts) AS l (no, at, attempt, number, level, text)
        ON CONFLICT DO NOTHING;
END
$$;
