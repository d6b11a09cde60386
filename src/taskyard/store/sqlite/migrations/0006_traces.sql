-- The span that a task was enqueued in, of those that carry a trace: the others have no row here.
CREATE TABLE taskyard_traces (no INTEGER PRIMARY KEY, trace TEXT NOT NULL);
