-- for_each: a list in which one may stand for all, in full.
CREATE OR REPLACE FUNCTION taskyard.for_each(p_list anyarray, p_count integer) RETURNS anyarray
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN cardinality(p_list) = p_count THEN p_list ELSE array_fill(p_list[1], ARRAY[p_count]) END
$$;
