-- current: refuses a yard that another release has brought into its own layout.
-- uses: base
-- KEYS meta  HASH  schema: version of this layout

-- A program looks at the schema when it opens the yard, and may run for weeks after that. A migration
-- waits for the leases of workers to end, not for those who enqueue, look on or operate.
refuse_other_layout(call('HGET', K.meta, 'schema'))
