"""Text that came from tasks, made harmless for a terminal."""

from __future__ import annotations

import re

# Control characters but newline and tab, marks that turn the direction of writing, and halves
# of surrogate pairs, which no terminal can be sent.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_BREAKS = re.compile("[\t\n]")


def clean(text: str) -> str:
    """The same text with whatever could drive a terminal written out: ESC is shown as \\x1b."""
    return _UNSAFE.sub(_written_out, text)


def one_line(text: str) -> str:
    return _BREAKS.sub(_written_out, clean(text))


def clean_json(text: str) -> str:
    """JSON text stays the same JSON: what is unsafe can only stand inside its strings."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _written_out(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")
