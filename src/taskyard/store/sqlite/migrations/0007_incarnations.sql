-- Which node each incarnation was of: longer than the rows of nodes, which go when they end. A task that runs, or has
-- ended, names the incarnation that had it by its number. The name itself took a quarter of the row, and a claim and
-- an end write every page that has one of their rows.
CREATE TABLE taskyard_incarnations (lease INTEGER PRIMARY KEY, node TEXT NOT NULL, ended_at INTEGER);
INSERT INTO taskyard_incarnations (lease, node) SELECT lease, id FROM taskyard_nodes;
-- `node` counts where there is one: in tasks that wait for another attempt, that a worker of an earlier version had,
-- or that were copied from another store.
ALTER TABLE taskyard_tasks ADD COLUMN taken_by INTEGER;
