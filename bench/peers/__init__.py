"""One side of a comparison a file: run as a script, prints its figures as JSON.

    python <side>.py FOLDER ONE_BY_ONE MANY

`ONE_BY_ONE` tasks are enqueued one after the other, `MANY` in every other way the side knows;
then all are processed, until the store knows that they are done.
"""
