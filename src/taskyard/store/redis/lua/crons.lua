-- crons.lua: all periodic tasks, packed.
-- uses: crons

return call('HVALS', K.crons)
