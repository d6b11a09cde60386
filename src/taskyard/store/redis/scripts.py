"""Loads the `.lua` files: one file a verb, put behind the parts it uses.

A file's header says what it needs: `-- uses: tasks, keys` names parts, `-- KEYS ready ZSET …` a
key. Every script is given all keys it may touch, and finds them by name in the table K. Names in
capitals that stand for a number are replaced by it.

A script makes all its functions anew with every call, and looks for what each of them refers to
among all names of the text. So what is not used is left out; each part is the body of a function,
which answers those of its names that are used behind it; and a part with the line `-- built when
needed` is built by the first call of one of its functions.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files

import msgspec

from taskyard.domain.state import TERMINAL, State

_USES = re.compile(r"^-- uses: (.+)$", re.MULTILINE)
_KEY = re.compile(r"^-- KEYS (\w+)\s+(HASH|ZSET|STREAM)\b", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)
_LOCAL = re.compile(r"^local (?:function (\w+)|([\w, ]+?)(?: = .*)?$)", re.MULTILINE)
_STATEMENT = re.compile(r"^(?=\S)(?!end\b|\}|\))", re.MULTILINE)
_LAZY = "-- built when needed\n"
_CONSTANTS = re.compile(
    r"^local ([A-Z][A-Z_]*(?:, [A-Z][A-Z_]*)*) = (\d+(?:, \d+)*)\n", re.MULTILINE
)
_NAMED = re.compile(r"\bK\.(\w+)")
_WORD = re.compile(r"'(?:[^'\\\n]|\\.)*'|\b[A-Z][A-Z_]*\b")

PREFIX = "taskyard:v1:"

SCHEMA = 4
"""The version of the layout."""


class Script(msgspec.Struct, frozen=True):
    text: str
    sha: str
    keys: tuple[str, ...]  # without the prefix
    goes_on_when_full: bool = False  # it may write although the server's memory is full


def key_prefix(namespace: str) -> str:
    """The braces keep all keys of a namespace in one slot of a cluster."""
    return f"{PREFIX}{{{namespace}}}:"


@cache
def load(verb: str) -> Script:
    return compose(read(f"{verb}.lua"))


def compose(main: str) -> Script:
    """This text behind the parts it uses."""
    sources = [*(read(f"parts/{part}.lua") for part in _parts(main)), main]
    body = _joined(sources)
    own = {key for key, _ in _declared(main)}
    declared = {key for source in sources for key, _ in _declared(source)}
    keys = tuple(sorted(own | (declared & _touched(body))))
    text = _prelude(keys) + body
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(text, sha, keys, goes_on_when_full="full" in _parts(main))


def _touched(text: str) -> set[str]:
    """The keys that are, by their names or as the index of a state."""
    return {*_NAMED.findall(text), *(State if "K[" in text else ())}


def _joined(sources: list[str]) -> str:
    lazy = [_LAZY in source for source in sources]
    texts = _with_numbers([_COMMENT.sub("", source) for source in sources])
    text = texts.pop()
    words = _words(text)
    for at in range(len(texts) - 1, -1, -1):
        part = _built(texts[at], words, lazy=lazy[at])
        words |= _words(part)
        text = part + text
    return text


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _built(part: str, words: set[str], *, lazy: bool) -> str:
    part = _without_unused(part, words)
    exported = ", ".join(name for name in _local_names(part) if name in words)
    if not exported:
        return part
    if not lazy:
        return f"local {exported} = (function()\n{part}return {exported}\nend)()\n"
    stubs = "".join(
        f"{name} = function(...) {exported} = build() return {name}(...) end\n"
        for name in exported.split(", ")
    )
    build = f"local function build()\n{part}return {exported}\nend\n"
    return f"local {exported}\ndo\n{build}{stubs}end\n"


def _without_unused(part: str, words: set[str]) -> str:
    """Without the names that neither these words nor later statements of the part refer to."""
    used, kept = set(words), list[str]()
    for statement in reversed(_STATEMENT.split(part)):
        names = _local_names(statement)
        if not names or used.intersection(names):
            used |= _words(statement)
            kept.append(statement)
    return "".join(reversed(kept))


def _local_names(part: str) -> list[str]:
    found = [function or names for function, names in _LOCAL.findall(part)]
    return [name for names in found for name in names.split(", ")]


def _with_numbers(texts: list[str]) -> list[str]:
    return with_numbers("\f\n".join(texts)).split("\f\n")


def with_numbers(text: str) -> str:
    """Each constant replaced by what it stands for; what is in quotes stays."""
    numbers: dict[str, str] = {}
    for names, values in _CONSTANTS.findall(text):
        for name, value in zip(names.split(", "), values.split(", "), strict=True):
            if numbers.setdefault(name, value) != value:
                raise ValueError(f"{name} stands for two numbers in one script")
    without = _CONSTANTS.sub("", text)
    return _WORD.sub(lambda word: numbers.get(word[0], word[0]), without)


def verbs() -> list[str]:
    folder = files(__package__) / "lua"
    return sorted(
        entry.name.removesuffix(".lua") for entry in folder.iterdir() if entry.name.endswith(".lua")
    )


def all_keys() -> dict[str, str]:
    """Every key of a yard, with its type."""
    sources = [read(f"{verb}.lua") for verb in verbs()]
    used = {part for verb in verbs() for part in parts(verb)}
    sources += [read(f"parts/{part}.lua") for part in used]
    return dict(sorted({pair for source in sources for pair in _declared(source)}))


def parts(verb: str) -> tuple[str, ...]:
    """The parts a verb uses, each behind those it uses itself."""
    return _parts(read(f"{verb}.lua"))


def _declared(source: str) -> list[tuple[str, str]]:
    """(name, type) of the keys a file says it touches."""
    return [(name, kind) for name, kind in _KEY.findall(source)]


@cache
def read(name: str) -> str:
    return (files(__package__) / "lua" / name).read_text("utf-8")


@cache
def _parts(source: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for line in _USES.findall(source):
        for part in line.split(", "):
            found |= dict.fromkeys((*_parts(read(f"parts/{part}.lua")), part))
    return tuple(found)


def _prelude(keys: tuple[str, ...]) -> str:
    names = ", ".join(f"{key} = KEYS[{at}]" for at, key in enumerate(keys, 1))
    terminal = ", ".join(f"{state} = true" for state in sorted(TERMINAL))
    known = f"local SCHEMA = '{SCHEMA}'\nlocal TERMINAL = {{ {terminal} }}\n"
    return f"local K = {{ {names} }}\n{known}"
