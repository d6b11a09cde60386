-- open.lua: make the yard if there is none; answers the version of its schema.
-- uses: full
-- KEYS meta  HASH  schema: version of this layout
-- args: the version this program knows

call('HSETNX', K.meta, 'schema', args[1])
return call('HGET', K.meta, 'schema')
