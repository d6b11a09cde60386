from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from bench.ground import STORES
from bench.speed.sides import (
    PEERS,
    PIN,
    Measure,
    Peer,
    chosen_peers,
    limit,
    ourselves,
    read_table,
)

OF_PEERS = {Measure.ONE, Measure.AT_ONCE, Measure.BULK, Measure.PROCESS, Measure.IDLE}


def peer(name: str, store: str = "redis", **more: object) -> Peer:
    given: dict[str, object] = {
        "name": name,
        "script": "some.py",
        "store": store,
        "requirements": ("some==1.0",),
        "measures": (Measure.PROCESS,),
        "settings": "the best",
    }
    return Peer(**(given | more))  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", read_table(), ids=lambda entry: entry.name)
def test_an_entry_names_a_script_that_is_there_and_exact_versions(entry: Peer) -> None:
    assert (PEERS / entry.script).is_file()
    assert entry.store in STORES
    assert entry.settings
    assert entry.measures
    assert set(entry.measures) <= OF_PEERS
    assert entry.requirements
    assert [pin for pin in entry.requirements if not PIN.match(pin)] == []


def test_every_store_has_a_peer_and_every_peer_a_name_of_its_own() -> None:
    table = read_table()

    assert {entry.store for entry in table} == set(STORES)
    names = [(entry.store, entry.name) for entry in table]
    assert len(set(names)) == len(names)


def test_those_who_share_an_environment_want_the_same_in_it() -> None:
    wanted: defaultdict[Path, set[tuple[str, ...]]] = defaultdict(set)
    for entry in read_table():
        wanted[entry.environment].add(entry.requirements)

    assert [folder for folder, lists in wanted.items() if len(lists) > 1] == []


def test_a_requirement_that_is_not_pinned_has_no_environment() -> None:
    with pytest.raises(ValueError, match="not pinned"):
        _ = peer("loose", requirements=("some>=1.0",)).environment


def test_a_name_chooses_all_entries_of_a_peer_on_the_store() -> None:
    table = [peer("saq"), peer("saq-slow"), peer("saqqara"), peer("saq", store="postgres")]

    assert [p.name for p in chosen_peers("redis", ["saq"], table)] == ["saq", "saq-slow"]
    assert [p.name for p in chosen_peers("postgres", None, table)] == ["saq"]
    assert chosen_peers("redis", (), table) == []


def test_two_workers_and_the_special_measures_are_processing_with_more_said() -> None:
    own = ourselves("sqlite")

    def told(measure: Measure) -> list[str]:
        return own.argv(measure, "URL", 7)[len(own.command) :]

    assert told(Measure.PROCESS) == ["process", "URL", "7", "1"]
    assert told(Measure.PROCESS_BY_TWO) == ["process", "URL", "7", "2"]
    assert told(Measure.KEYED) == ["process", "URL", "7", "1", "keyed"]
    assert told(Measure.IDLE_HERE) == ["idle_here", "URL", "7", "1"]


def test_a_peer_is_run_in_its_own_environment_with_its_options() -> None:
    side = peer("some-fast", options=("batch=500",)).side()

    assert side.command[0].endswith(".venv-peers/some/bin/python")
    assert side.argv(Measure.PROCESS, "URL", 7)[1:] == [
        "some.py",
        "process",
        "URL",
        "7",
        "1",
        "batch=500",
    ]
    assert Measure.PROCESS_BY_TWO in side.measures


@pytest.mark.parametrize("store", STORES)
def test_the_bare_store_is_a_side_of_every_store(store: str) -> None:
    assert Measure.PROCESS in limit(store).measures
    assert (PEERS.parent / "limits" / f"{store}.py").is_file()
