"""The Lua files say what they touch, and name nothing the domain does not know."""

from __future__ import annotations

import re
from typing import Any

import pytest
from redis import Redis

from taskyard.domain.node import NodeState
from taskyard.domain.state import Reason, State
from taskyard.domain.task import NewTask
from taskyard.store.redis.scripts import (
    _declared,
    _joined,
    all_keys,
    compose,
    key_prefix,
    load,
    parts,
    read,
    verbs,
    with_numbers,
)
from tests.servers.redis import shared_url

FILES = [f"{verb}.lua" for verb in verbs()] + [
    f"parts/{part}.lua" for part in sorted({part for verb in verbs() for part in parts(verb)})
]

USED = re.compile(r"\bK\.(\w+)")
NAMED = re.compile(r"(?:STATE\]|REASON\]|\.state|\.reason)(?:, [\w.\[\]]+)* [=~]=? ('[\w' ,]+')")


def code(file: str) -> str:
    return re.sub(r"--.*", "", read(file))


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize("file", FILES)
def test_every_file_begins_with_what_it_does(file: str) -> None:
    name = file.removeprefix("parts/").removesuffix(".lua" if "/" in file else "")

    assert read(file).startswith(f"-- {name}: ")


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize("verb", verbs())
def test_every_key_a_script_touches_is_declared(verb: str) -> None:
    files = [f"{verb}.lua", *(f"parts/{part}.lua" for part in parts(verb))]
    named = {key for file in files for key, _ in _declared(read(file))}
    script = load(verb)

    assert set(USED.findall(script.text)) <= set(script.keys) <= named
    if "K[" in script.text:
        assert set(State) <= set(script.keys)


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize("file", FILES)
def test_every_file_declares_its_keys_or_uses_a_part_that_does(file: str) -> None:
    """Whoever reads a file finds the type and the meaning of each key from its head."""
    known = set(compose(read(file)).keys)

    assert {key for key in USED.findall(code(file)) if key != "state"} <= known


# What has as many members as there are tasks: no command may answer all of it.
OF_TASKS = {
    *("tasks", "lives", "ids", "results", "progress", "failures", "checkpoints", "needs"),
    "logs",
    *("dedup", "by_key", "ready", "parked", "rounds", "shares", "dependents", "buckets"),
    *("due", "deadlines", "runs", "asked", "held", *State),
}
WHOLE = {"HGETALL", "HKEYS", "HVALS", "ZRANGE", "ZREVRANGE", "SMEMBERS", "LRANGE"}
WALKS = {"KEYS", "SCAN", "HSCAN", "ZSCAN", "SSCAN", "SORT", "RANDOMKEY", "DBSIZE"}


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize("file", FILES)
def test_no_script_walks_over_all_tasks(file: str) -> None:
    calls = re.findall(r"call\('([A-Z]+)'(?:, ([^,)]+))?(?:, ([^)]*))?", code(file))

    assert not WALKS & {command for command, _, _ in calls}
    for command, key, rest in calls:
        if command in WHOLE and rest != "0, 0, 'WITHSCORES'":  # that is the first alone
            assert key.removeprefix("K.") in set(all_keys()) - OF_TASKS


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize("file", FILES)
def test_no_script_makes_up_the_name_of_a_key(file: str) -> None:
    """In a cluster every key must be known before the script runs."""
    text = code(file)

    assert not re.search(r"\bKEYS\b", text)
    assert "taskyard:" not in text
    calls = re.findall(r"call\('([A-Z]+)'(?:, ([^,)]+))?", text)
    assert {key for _, key in calls if key} <= {
        *(f"K.{name}" for name in all_keys()),
        *("K[state]", "key", "index", "ARGV[2]"),
    }


@pytest.mark.spec("engine-30")
def test_all_keys_of_a_namespace_are_in_one_slot() -> None:
    assert key_prefix("yard") == "taskyard:v1:{yard}:"


@pytest.mark.spec("engine-6")
@pytest.mark.parametrize("file", FILES)
def test_states_and_reasons_are_those_of_the_domain(file: str) -> None:
    words = {word for found in NAMED.findall(code(file)) for word in re.findall(r"'(\w+)'", found)}

    assert words <= {*State, *Reason, *NodeState}


@pytest.mark.spec("engine-30")
def test_names_of_numbers_are_replaced_but_not_in_quotes() -> None:
    text = "local STATE, RUN_AT = 1, 12\ncall('STATE', task[STATE], K.STATES, task[RUN_AT])\n"

    assert with_numbers(text) == "call('STATE', task[1], K.STATES, task[12])\n"
    with pytest.raises(ValueError, match="STATE stands for two numbers"):
        with_numbers("local STATE = 1\nlocal STATE = 2\n")


@pytest.mark.spec("engine-30")
def test_scripts_know_the_fields_of_new_tasks_by_their_order() -> None:
    names = re.findall(r"^local (NEW_.*) = (.*)$", read("parts/clashing.lua"), re.MULTILINE)
    places = [
        pair for row, at in names for pair in zip(row.split(", "), at.split(", "), strict=True)
    ]

    assert [(name.removeprefix("NEW_").lower(), int(at)) for name, at in places] == [
        (field, at) for at, field in enumerate(NewTask.__struct_fields__, 1)
    ]


SHARED = """
local shared, kept = {}, 1
local function unused() return shared end
local function inner() kept = kept + 1 return kept end
local function used() return inner() end
"""


@pytest.mark.spec("engine-30")
def test_what_no_script_uses_is_left_out() -> None:
    assert _joined([SHARED, "return used()\n"]) == (
        "local used = (function()\n\n"
        "local shared, kept = {}, 1\n"
        "local function inner() kept = kept + 1 return kept end\n"
        "local function used() return inner() end\n"
        "return used\nend)()\nreturn used()\n"
    )


@pytest.mark.spec("engine-30")
def test_a_part_that_is_built_when_needed_keeps_what_it_knows() -> None:
    lazy = f"-- built when needed\n{SHARED}"
    with Redis.from_url(shared_url()) as client:
        counted: Any = client.eval(_joined([lazy, "return {used(), used(), used()}\n"]), 0)

    assert counted == [2, 3, 4]


ASSIGNED = re.compile(r"^ +([a-z_]+(?:, [a-z_]+)*) = ", re.MULTILINE)


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize("file", [file for file in FILES if file.startswith("parts/")])
def test_what_parts_share_is_never_another_value(file: str) -> None:
    """Whoever uses a part has a copy of its names: only their content may change."""
    shared = set(re.findall(r"\w+", " ".join(code(other) for other in FILES if other != file)))
    variables = {
        name
        for names in re.findall(
            r"^local ([a-z_]+(?:, [a-z_]+)*)(?: = |$)", code(file), re.MULTILINE
        )
        for name in names.split(", ")
    }
    assigned = {name for names in ASSIGNED.findall(code(file)) for name in names.split(", ")}

    assert variables & assigned & shared <= PRIVATE


# Names of variables that others have too, each its own.
PRIVATE = {"exact", "prefixes", "waiting", "fields", "news", "changed"}


@pytest.mark.spec("engine-30")
@pytest.mark.parametrize("verb", verbs())
def test_every_script_is_correct_lua(verb: str) -> None:
    with Redis.from_url(shared_url()) as client:
        assert client.script_load(load(verb).text) == load(verb).sha
