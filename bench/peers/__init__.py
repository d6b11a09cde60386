"""One side of a comparison a file: run as a script, prints its figures as JSON.

    python <side>.py PLACE ONE_BY_ONE MANY

`PLACE` is an empty folder, or Taskyard's URL. `ONE_BY_ONE` tasks are enqueued one after the other,
`MANY` in every other way the side knows; then all are processed, until the store knows that they
are done.
"""
