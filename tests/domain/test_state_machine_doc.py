from __future__ import annotations

from pathlib import Path

import pytest

from taskyard.domain.state import REVIVABLE, TERMINAL, TRANSITIONS, State
from tools import state_machine


@pytest.mark.spec("engine-6")
def test_the_page_is_what_the_table_says() -> None:
    assert state_machine.PAGE.read_text(encoding="utf-8") == state_machine.page()


@pytest.mark.spec("engine-6")
def test_every_transition_is_drawn_and_listed_once() -> None:
    lines = state_machine.page().splitlines()

    for before, targets in TRANSITIONS.items():
        for after, reasons in targets.items():
            [drawn] = [
                line
                for line in lines
                if line.startswith(f"    {before} --> {after}: ") and "retry by" not in line
            ]
            [listed] = [line for line in lines if line.startswith(f"| {before} | {after} |")]
            for line in (drawn, listed):
                assert all(reason in line for reason in reasons)
    assert sum(line.startswith("| ") for line in lines) == 1 + sum(map(len, TRANSITIONS.values()))


@pytest.mark.spec("engine-6")
def test_endings_and_new_lives_are_drawn() -> None:
    lines = state_machine.page().splitlines()

    ends = {s for s in State if f"    {s} --> [*]" in lines}
    lives = {s for s in State if f"    {s} --> queued: retry by an operator" in lines}

    assert ends == TERMINAL
    assert lives == REVIVABLE


@pytest.mark.spec("engine-6")
def test_the_tool_writes_the_page_and_notices_an_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "state_machine.md"
    monkeypatch.setattr(state_machine, "PAGE", page)
    page.write_text("old")

    assert state_machine.main(["--check"]) == 1
    assert "out of date" in capsys.readouterr().err
    assert state_machine.main([]) == 0
    assert state_machine.main(["--check"]) == 0
    assert page.read_text() == state_machine.page()
