"""The whole command, small: Taskyard, a peer that is a script, and the bare store, on SQLite."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import __main__ as command
from bench.speed import comparison
from bench.speed.results import read_latest
from bench.speed.sides import Measure, Peer

SCRIPT = "print('{\"rate\": 12.5}')"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Instead of the folder that is kept in git."""
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(comparison, "RESULTS", tmp_path)
    return tmp_path


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "fake.py"
    script.write_text(SCRIPT)
    peer = Peer(
        name="fake",
        script=str(script),
        store="sqlite",
        requirements=("fake==1",),
        measures=(Measure.ONE,),
        settings="always the same",
    )

    async def make_environment(_: Peer) -> None: ...

    monkeypatch.setattr(comparison, "read_table", lambda: [peer])
    monkeypatch.setattr(comparison, "make_environment", make_environment)
    monkeypatch.setattr(Peer, "python", property(lambda _: Path(sys.executable)))


@pytest.mark.usefixtures("fake")
def test_a_run_measures_everybody_and_leaves_its_results(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ["speed", "--store", "sqlite", "--measures", "one", "--rounds", "2", "--each", "0.1"]

    assert command.main(chosen) == 0  # two rounds are too few to miss a bound

    kept = read_latest(results).stores["sqlite"]
    assert [side.name for side in kept.sides] == ["taskyard", "fake", "bare store"]
    for side in kept.sides:
        assert len(side.values(Measure.ONE)) == 2
        assert side.typical(Measure.ONE) is not None
    assert kept.peers[0].typical(Measure.ONE) == 12.5
    assert "## SQLite" in (results / "latest.md").read_text()
    assert (results / "latest.png").stat().st_size > 1_000
    shown = capsys.readouterr().out
    assert "2 rounds of about" in shown
    assert "enqueue one at a time: to the best peer" in " ".join(shown.split())


@pytest.mark.usefixtures("fake")
def test_no_round_begins_that_would_end_too_late(results: Path) -> None:
    chosen = ["speed", "--store", "sqlite", "--measures", "one", "--each", "0.1"]

    command.main([*chosen, "--rounds", "2", "--minutes", "0"])

    assert not any(side.measured for side in read_latest(results).stores["sqlite"].sides)


def test_peers_or_a_number_of_tasks_choose_speed_alone() -> None:
    assert command.options([]).names == list(command.NAMES)
    assert command.options(["--peers", "pgqueuer,awa"]).peers == ("pgqueuer", "awa")
    assert command.options(["--peers", "pgqueuer,awa"]).names == ["speed"]
    assert command.options(["--tasks", "20000"]).names == ["speed"]
    assert command.options(["latency", "--tasks", "20000"]).names == ["latency"]
    assert command.options(["--peers", "none"]).peers == ()


@pytest.mark.parametrize("wrong", [["--peers", "pgqueuer,nobody"], ["--measures", "process,most"]])
def test_a_name_that_is_not_known_is_refused(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.options(wrong)
    assert "there is no" in capsys.readouterr().err


def test_without_a_store_speed_is_run_on_all_and_the_others_on_sqlite() -> None:
    assert command.stores_of("speed", None) == ("sqlite", "postgres", "redis")
    assert command.stores_of("latency", None) == ("sqlite",)
    assert command.stores_of("speed", "redis") == ("redis",)
