"""Bodies in processes of their own, which can be killed.

worker ── link ──▶ keeper ── forks, kills, reaps ──▶ child (one body at a time)
   └──────────── a socket to each child: jobs, outcomes, what a context asks ──┘

The keeper runs no user code and has one thread, so that it may fork; it adopts whatever bodies
leave behind. docs/decisions/0010-isolated-processes.md has the reasons.
"""
