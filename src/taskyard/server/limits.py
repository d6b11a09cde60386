"""How much one request may bring or ask for."""

from __future__ import annotations

MAX_BODY = 1 << 20  # bytes
MAX_DEPTH = 64  # of JSON
MAX_PAGE = 500
MAX_BULK = 1000  # tasks created, or lanes changed, by one request
MAX_REQUIRED = 100  # capabilities that one task asks for
MAX_ACTED_ON = 1000  # tasks one bulk action changes
MAX_COUNTED = 10_000  # tasks a dry run counts
MAX_SEARCHES = 4  # pages of MAX_PAGE that a search by text goes through
MAX_OPENED = 50  # tasks of a page whose long payload is read, to know what to hide
MAX_CONNECTIONS = 1000  # open at once, at a server that runs by itself
REQUEST_PATIENCE = 30.0  # seconds in which a whole request has to come, at such a server
ANSWER_PATIENCE = 60.0  # seconds in which some of an answer that waits has to be read
MAX_STREAMS = 100  # event streams open at once, of all callers
MAX_NUMBER = 2**63 - 1  # of a row: what every store can compare with
MAX_MARK = 2**31 - 1  # of an attempt, and of a line of its log
