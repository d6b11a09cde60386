"""`taskyard prune`, as people use it."""

from __future__ import annotations

import getpass
from datetime import timedelta

import pytest

from taskyard.domain.errors import InvalidOption
from taskyard.domain.lane import Audited
from taskyard.settings import read_age
from taskyard.yard import Yard
from tests.cli.program import Program

BRIEF = """
import os
from datetime import timedelta
from taskyard import Retention, Yard

yard = Yard(os.environ["TASKYARD_URL"], retention=Retention(cancelled=timedelta(0)))
"""


def cancelled(taskyard: Program, count: int) -> list[str]:
    ids = [taskyard.enqueue("greet", "name=x") for _ in range(count)]
    taskyard("tasks", "cancel", *ids)
    return ids


@pytest.mark.spec("lifecycle-15", "engine-32")
def test_what_is_older_goes_and_a_dry_run_says_how_much(taskyard: Program) -> None:
    ids = cancelled(taskyard, 2)
    waiting = taskyard.enqueue("greet", "name=x")
    told = taskyard("prune", "--older-than", "0s", "--dry-run")
    assert told == "would remove 2 tasks\n"
    assert taskyard("prune", "--older-than", "1d") == "removed 0 tasks\n"
    assert [task["id"] for task in taskyard.json("tasks", "list")] == [waiting, *reversed(ids)]

    assert taskyard("prune", "--older-than", "0s") == "removed 2 tasks\n"

    assert [task["id"] for task in taskyard.json("tasks", "list")] == [waiting]
    assert taskyard.try_to("tasks", "show", ids[0]).code == 3

    async def audit(yard: Yard) -> list[Audited]:
        return await yard.audit(limit=1)

    [line] = taskyard.until(audit, bool)
    assert (line.actor, line.action, line.detail) == (f"cli:{getpass.getuser()}", "prune", "2")


@pytest.mark.spec("lifecycle-15")
def test_the_application_says_how_long(taskyard: Program) -> None:
    cancelled(taskyard, 1)
    (taskyard.folder / "brief.py").write_text(BRIEF)

    assert taskyard("prune", "--app", "app:yard") == "removed 0 tasks\n"
    done = taskyard.json("prune", "--app", "brief:yard")

    assert done == {"dry_run": False, "tasks": 1, "audit": 0}


@pytest.mark.spec("lifecycle-15")
def test_without_the_application_an_age_is_needed(taskyard: Program) -> None:
    """The settings a program has are not known here, and the usual ones may be too short for it."""
    cancelled(taskyard, 1)
    refused = taskyard.try_to("prune")

    assert refused.code == 2
    assert "--app APP, or give --older-than AGE" in refused.complaint


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("0s", timedelta(0)),
        ("90m", timedelta(minutes=90)),
        ("12h", timedelta(hours=12)),
        ("1.5d", timedelta(hours=36)),
        ("2w", timedelta(days=14)),
    ],
)
def test_ages_are_numbers_with_a_unit(text: str, age: timedelta) -> None:
    assert read_age(text) == age


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1e3d", "1 d", "1y", "٣d", "9" * 30 + "w"])
def test_other_ages_are_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="30d"):
        read_age(text)
