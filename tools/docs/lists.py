"""Lists as forges read them, for a library that wants what belongs to an item four blanks in."""

from __future__ import annotations

import re
from collections.abc import Iterator

ITEM = re.compile(r"(\d+\.|-) (.*)")
DEEP = "    "
NOTHING = "&#8203;"  # an item may begin with code, but not with nothing at all


def deepened(markdown: str) -> str:
    return "\n".join(_lines(markdown.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    depth = 0  # of what belongs to the item we are in; 0: in none
    fenced = False  # in code that is in no item
    in_table = False
    for line in lines:
        item = None if fenced else ITEM.match(line)
        if item:
            depth = len(item[1]) + 1
            if item[2].startswith("```"):
                yield from (f"{item[1]} {NOTHING}", "", DEEP + item[2])
            else:
                yield line
        elif depth and line.startswith(" " * depth):
            inside = line[depth:].removeprefix(" " * (len(DEEP) - depth))
            if inside.startswith("|") != in_table:
                yield ""  # around a table
            in_table = inside.startswith("|")
            yield DEEP + inside
        else:
            if line.startswith("```"):
                fenced = not fenced
            if line:
                depth, in_table = 0, False
            yield line
