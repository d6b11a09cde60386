"""Writes docs/state_machine.md from the one table in domain/state.py.

`python tools/state_machine.py` writes the page, `--check` says whether it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from taskyard.domain.state import REVIVABLE, TERMINAL, TRANSITIONS, Reason, State

PAGE = Path(__file__).resolve().parent.parent / "docs" / "state_machine.md"

HEAD = """\
# The states of a task

Generated from `src/taskyard/domain/state.py` by `python tools/state_machine.py`; do not edit.
"""


def page() -> str:
    return "\n".join([HEAD, *diagram(), "", *table(), "", *endings()]) + "\n"


def diagram() -> Iterator[str]:
    """A new life is no transition of the table, so it is drawn with its verb."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {State.PENDING}: {Reason.CREATED}"
    yield f"    [*] --> {State.QUEUED}: {Reason.CREATED}"
    for before, after, reasons in transitions():
        yield f"    {before} --> {after}: {', '.join(reasons)}"
    for state in in_order(TERMINAL):
        yield f"    {state} --> [*]"
    for state in in_order(REVIVABLE):
        yield f"    {state} --> {State.QUEUED}: retry by an operator"
    yield "```"


def table() -> Iterator[str]:
    yield "| from | to | reasons |"
    yield "|---|---|---|"
    for before, after, reasons in transitions():
        yield f"| {before} | {after} | {', '.join(reasons)} |"


def endings() -> Iterator[str]:
    yield f"Terminal, because nothing leads out of them: {listed(TERMINAL)}."
    yield ""
    yield (
        f"New life: an operator's retry of a {' or '.join(in_order(REVIVABLE))} task queues the "
        "same row again with a full budget; it is audited, and the attempt goes on counting."
    )
    yield ""
    yield "Everything else is refused with an error that names what is possible."


def transitions() -> Iterator[tuple[State, State, list[Reason]]]:
    for before in State:
        for after, reasons in TRANSITIONS.get(before, {}).items():
            yield before, after, [reason for reason in Reason if reason in reasons]


def in_order(states: Iterable[State]) -> list[State]:
    wanted = set(states)
    return [state for state in State if state in wanted]


def listed(states: Iterable[State]) -> str:
    return ", ".join(f"`{state}`" for state in in_order(states))


def main(arguments: Sequence[str]) -> int:
    if "--check" not in arguments:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == page():
        return 0
    print(f"{PAGE} is out of date; run python tools/state_machine.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
