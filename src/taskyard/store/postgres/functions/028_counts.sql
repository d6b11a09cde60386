-- count_completed: so many more tasks have completed, or with a minus have been pruned. Nobody waits for another:
-- each enters his own, and now and then somebody sums up.
CREATE OR REPLACE FUNCTION taskyard.count_completed(p_tasks bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_tasks <> 0 THEN
        INSERT INTO taskyard.completed (tasks) VALUES (p_tasks);
        IF random() < 0.002 THEN
            PERFORM taskyard.sum_up_completed();
        END IF;
    END IF;
END
$$;

-- sum_up_completed: one entry in the place of many. Entries that somebody else is summing up are left to them.
-- Not in a caller's transaction that sees the past: those entries may be gone.
CREATE OR REPLACE FUNCTION taskyard.sum_up_completed() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM taskyard.completed WHERE ctid = ANY (ARRAY(
            SELECT c.ctid FROM taskyard.completed AS c LIMIT 5000 FOR UPDATE SKIP LOCKED))
        RETURNING tasks
    )
    INSERT INTO taskyard.completed (tasks) SELECT sum(g.tasks) FROM gone AS g HAVING count(*) > 0;
END
$$;

-- correct_completed: let the sum be what is there, if it is not. A call that was under way when a release
-- brought this ledger ends its tasks without an entry. Both are read in one statement, so that whoever is just
-- ending tasks is in both or in none; one corrects at a time. Of very many it would take too long.
CREATE OR REPLACE FUNCTION taskyard.correct_completed() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT c.reltuples > 30000000 FROM pg_class AS c WHERE c.oid = 'taskyard.done'::regclass) THEN
        RETURN;
    END IF;
    LOCK TABLE taskyard.completed IN SHARE UPDATE EXCLUSIVE MODE;
    INSERT INTO taskyard.completed (tasks)
    SELECT s.wrong
      FROM (SELECT (SELECT count(*) FROM taskyard.done AS d WHERE d.state = 'completed')
                 - (SELECT coalesce(sum(c.tasks), 0) FROM taskyard.completed AS c) AS wrong) AS s
     WHERE s.wrong <> 0;
END
$$;
