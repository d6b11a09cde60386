-- tally: add these to the figures of this hour, in the order of their places, so that two who add do not
-- deadlock.
CREATE OR REPLACE FUNCTION taskyard.tally(
    p_clock bigint, p_span bigint, p_kinds text[], p_lanes text[], p_whats text[], p_buckets integer[], p_ns bigint[])
RETURNS void
LANGUAGE plpgsql
{careful_plans} AS $$
DECLARE
    v_now bigint := taskyard.moment(p_clock);
BEGIN
    INSERT INTO taskyard.figures AS f (hour, kind, lane, what, bucket, n)
    SELECT v_now - v_now % p_span, c.kind, c.lane, c.what, c.bucket, sum(c.n)
      FROM unnest(p_kinds, p_lanes, p_whats, p_buckets, p_ns) AS c (kind, lane, what, bucket, n)
     GROUP BY c.kind, c.lane, c.what, c.bucket
     ORDER BY c.kind COLLATE "C", c.lane COLLATE "C", c.what COLLATE "C", c.bucket
        ON CONFLICT (hour, kind, lane, what, bucket) DO UPDATE SET n = f.n + excluded.n;
END
$$;
