"""Keeps the passwords in URLs out of every message."""

from __future__ import annotations

import re

ENCODE = "if the password in the URL has a / ? # or @, write it as %2F %3F %23 or %40"

_SERVERS = re.compile(r"[^/?#]*")
_PASSWORD = re.compile(r"([?&][^=&#\s]*password=)[^&#\s]*", re.IGNORECASE)
_CREDENTIALS = re.compile(r"((?:postgres(?:ql)?|rediss?(?:\+cluster)?)://[^\s:@]*:)\S*@")


def is_cut(url: str) -> bool:
    """Whether an @ stands behind the servers of a URL.

    A password that is not encoded ends at its first / ? or #: what comes before that is taken for
    a host and a port, and the rest for something else.
    """
    place = url.partition("://")[2]
    return "@" in _SERVERS.sub("", place, count=1)


def without_secrets(url: str) -> str:
    """For messages: without user and password."""
    scheme, mark, place = url.partition("://")
    if scheme == "sqlite" and place.partition("/")[0] in ("", ":memory:"):
        return url  # a path may have an @
    if not mark:
        return "…" if "@" in url else url
    servers = _SERVERS.match(place)
    found = servers[0].rpartition("@")[2] if servers else ""
    if is_cut(url) or not all(map(_is_server, found.split(","))):
        return f"{scheme}://…"
    return _PASSWORD.sub(r"\1…", f"{scheme}://{found}{_SERVERS.sub('', place, count=1)}")


def text_without_secrets(text: str) -> str:
    """A message that may have such URLs in it."""
    return _PASSWORD.sub(r"\1…", _CREDENTIALS.sub(r"\1…@", text))


def _is_server(server: str) -> bool:
    """What is no port behind a colon may be a password."""
    colon, port = server.rpartition("]")[2].rpartition(":")[1:]
    return not colon or port.isdecimal()
