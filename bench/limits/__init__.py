"""What a store gives at best to one Python process, for the same contract as Taskyard's.

One side of the comparison a module: `python -m bench.limits.<store> MEASURE URL COUNT WORKERS`.

- `process`: a bare loop that finishes a batch and claims the next in one step, while the batch
  before is handled. The contract is ours: a task runs under a numbered attempt, its end is refused
  unless that attempt is the accepted one, what has ended is kept, and everything is committed
  before the answer. The engine is not there: no kinds, lanes, limits, leases, retries, audit.
- `idle`: the same step for a single task, as soon as the store has told of it.
- `one`, `at_once`, `bulk`: the rows that one enqueue of Taskyard leaves in its tables, written
  directly by one connection: one task a commit, a hundred (what 100 coroutines at once could share)
  and a thousand.
"""
