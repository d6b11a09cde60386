-- now.lua: the store's clock.
-- uses: base
-- KEYS meta  HASH  so that a cluster knows whom to ask

return whole(now)
