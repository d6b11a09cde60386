from __future__ import annotations

from pathlib import Path

import pytest

from bench.figure import Figure
from bench.speed.places import Asked
from bench.speed.plot import draw
from bench.speed.report import markdown, peers_ahead, tables
from bench.speed.results import (
    Latest,
    Machine,
    Measured,
    SideResult,
    StoreResult,
    keep,
    read_latest,
)
from bench.speed.sides import Measure, Role
from bench.speed.targets import figures

ROUNDS = 10
NOISE = (1.0, 0.5, 1.3, 1.1, 0.9, 1.2, 0.8, 1.0, 0.7, 1.4)  # of the machine: alike for all sides


def measured(figure: str, value: float, **more: float) -> Measured:
    answers = [{figure: value * noise, **more} for noise in NOISE]
    return Measured(started="now", count=1_000, answers=[*answers])


def side(name: str, role: Role, process: float, **more: Measured) -> SideResult:
    processed = measured("done", process, rss_mb=40.0, cpu_us=1e6 / process)
    return SideResult(
        name=name,
        role=role,
        settings=f"of {name}",
        measured={Measure.PROCESS: processed} | {Measure(k): v for k, v in more.items()},
        asked=Asked(0.5, 3.0),
    )


def result(store: str = "postgres", *, own: float = 40_000) -> StoreResult:
    return StoreResult(
        store=store,
        version="PostgreSQL 16",
        taskyard="abc",
        started="2026-11-16T08:00:00+00:00",
        rounds=ROUNDS,
        seconds=2.0,
        machine=Machine(cores=2, system="Linux", python="3.11", load=(1, 1, 1), sync_ms=0.2),
        sides=[
            side(
                "taskyard",
                Role.OWN,
                own,
                at_once=measured("rate", 9_000),
                idle=measured("p50_ms", 2.0, p99_ms=9.0),
                keyed=measured("done", own / 2),
            ),
            side("slow", Role.PEER, 500, one=measured("rate", 300)),
            side(
                "quick",
                Role.PEER,
                10_000,
                one=measured("rate", 1_000),
                at_once=measured("rate", 3_000),
                idle=measured("p50_ms", 1.0, p99_ms=20.0),
            ),
            side("bare store", Role.LIMIT, 100_000),
        ],
    )


def figure(found: list[Figure], name: str) -> Figure:
    return next(one for one in found if one.name.startswith(name))


def test_noise_that_both_sides_share_does_not_touch_a_ratio() -> None:
    found = result()
    ratio = found.against(found.peers[1], Measure.PROCESS)

    assert ratio is not None
    assert (ratio.median, ratio.lower, ratio.rounds) == (4.0, 4.0, ROUNDS)


def test_a_target_is_judged_against_the_best_peer_and_the_bare_store() -> None:
    found = figures(result())

    to_peers = figure(found, "processing, one process: to the best peer")
    assert (to_peers.value, to_peers.at_least, to_peers.held) == (4.0, 2.2, True)
    assert "quick" in to_peers.detail
    median = figure(found, "processing, one process: to the best peer, median")
    assert (median.value, median.at_least, median.held) == (4.0, 3, True)
    to_limit = figure(found, "processing, one process: to the bare store")
    assert (to_limit.value, to_limit.at_least, to_limit.held) == (0.4, 0.5, False)
    keyed = figure(found, "processing, 1 000 keys")
    assert (keyed.value, keyed.held) == (0.5, True)


def test_pick_up_is_judged_the_other_way_round() -> None:
    idle = figure(figures(result()), "idle pick-up: to the best peer")

    assert (idle.value, idle.at_least, idle.held) == (0.5, 1, False)


def test_some_targets_name_the_peer() -> None:
    found = result("redis")
    found.sides[1].name = "taskiq-list"
    found.sides[1].measured[Measure.IDLE] = measured("p50_ms", 3.0)

    idle = figure(figures(found), "idle pick-up: to taskiq")

    assert (idle.value, idle.held) == (1.5, True)


def test_a_peer_without_such_a_way_goes_the_next_best() -> None:
    found = result()
    slow = found.peers[0]

    assert slow.way(Measure.AT_ONCE) is Measure.ONE
    ratio = found.against(slow, Measure.AT_ONCE)
    assert ratio is not None
    assert ratio.median == pytest.approx(30.0)
    assert found.against(slow, Measure.IDLE) is None


def test_too_few_rounds_judge_nothing() -> None:
    short = result(own=10)
    for one in short.sides:
        for runs in one.measured.values():
            runs.answers = runs.answers[:3]

    assert all(one.at_least is None for one in figures(short))


def test_where_a_peer_is_ahead_is_said() -> None:
    found = {(what, peer.name) for what, peer, _ in peers_ahead(result())}

    assert found == {("idle pick-up", "quick")}
    slower = {(what, peer.name) for what, peer, _ in peers_ahead(result(own=5_000))}
    assert ("processing, one process", "quick") in slower
    assert ("worker CPU, µs/task", "quick") in slower
    assert ("processing, one process", "slow") not in slower


def test_results_of_the_stores_are_kept_side_by_side(tmp_path: Path) -> None:
    keep(result("postgres"), tmp_path)
    keep(result("sqlite"), tmp_path)
    latest = keep(result("postgres", own=50_000), tmp_path)

    assert read_latest(tmp_path).stores.keys() == {"postgres", "sqlite"}
    assert [one.store for one in latest.in_order] == ["postgres", "sqlite"]
    assert read_latest(tmp_path).stores["postgres"].own.typical(Measure.PROCESS) == 50_000


def test_results_of_an_earlier_form_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "latest.json").write_text('{"stores": {"redis": {"rates": []}}}')

    assert keep(result("sqlite"), tmp_path).stores.keys() == {"sqlite"}


def test_a_run_of_some_measures_replaces_these_and_leaves_the_others(tmp_path: Path) -> None:
    keep(result(), tmp_path)
    newer = result()
    own, _, quick, _ = newer.sides
    for one in (own, quick):
        one.measured = {Measure.PROCESS: measured("done", 70_000)}
        one.measured[Measure.PROCESS].started = "later"
    newer.sides = [own, quick]

    kept = keep(newer, tmp_path).stores["postgres"]

    assert newer.own.measured.keys() == {Measure.PROCESS}  # what is shown is this run
    there = {one.name: one for one in kept.sides}
    assert there.keys() == {"taskyard", "quick", "slow"}
    assert Measure.PROCESS not in there["slow"].measured  # of another run: not compared
    assert kept.own.typical(Measure.PROCESS) == 70_000
    assert kept.own.typical(Measure.AT_ONCE) == 9_000
    ratio = kept.against(there["quick"], Measure.AT_ONCE)
    assert ratio is not None
    assert ratio.median == 3.0


def test_what_did_not_run_in_the_same_rounds_is_not_compared() -> None:
    found = result()
    found.own.measured[Measure.PROCESS].started = "another time"

    assert found.against(found.peers[0], Measure.PROCESS) is None
    assert found.own.share(Measure.KEYED, Measure.PROCESS) is None
    assert found.against(found.peers[1], Measure.AT_ONCE) is not None


def test_the_page_has_the_figures_the_bounds_and_who_is_ahead() -> None:
    broken = result()
    broken.sides[1].failed[Measure.IDLE] = "exit code 1: no\nsuch thing"
    page = markdown(Latest({"postgres": broken}))

    assert "## PostgreSQL" in page
    assert "| quick | 10,000 |" in page
    assert "4 (≥ 4)" in page
    assert "**not reached**" in page
    assert "- idle pick-up: quick, 2.00 times as good as ours" in page
    assert "slow failed at idle pick-up: `exit code 1: no such thing`" in page
    widths = {line.count("|") for line in page.splitlines() if line.startswith("| quick")}
    heads = {line.count("|") for line in page.splitlines() if line.startswith("| ours to |  ")}
    assert widths >= heads


def test_the_tables_for_the_screen_have_a_row_for_each_side() -> None:
    measured_table, ratio_table, _ = tables(result())

    assert measured_table.row_count == 4
    assert ratio_table.row_count == 3


def test_the_picture_is_a_png_of_all_stores(tmp_path: Path) -> None:
    draw(Latest({store: result(store) for store in ("sqlite", "redis")}), tmp_path / "it.png")

    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")
