"""The tutorial works as it is told, from its first line to its last."""

from __future__ import annotations

from pathlib import Path

from tests.docs.session import Session, Typed, Written, steps

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")


def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        for step in steps(PAGE):
            session.follow(step)
        session.stop()


def test_it_shows_what_it_promises() -> None:
    """So that a block whose form is not understood is not passed over in silence."""
    every = list(steps(PAGE))
    typed = [" ".join(step.words) for step in every if isinstance(step, Typed)]
    files = {step.path for step in every if isinstance(step, Written)}
    assert files == {"downloads.py", "ask.py", "test_downloads.py", "api.py"}
    for command in ("worker", "serve", "lanes set", "tasks explain", "enqueue"):
        assert any(line.startswith(f"taskyard {command} ") for line in typed)
    assert any("--key" in line for line in typed)
    assert PAGE.count("```python\n") == sum(isinstance(step, Written) for step in every)
    assert PAGE.count("\n$ ") == len(typed)
