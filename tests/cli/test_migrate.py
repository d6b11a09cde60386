"""`taskyard migrate` says what it did, and whether there is something to do."""

from __future__ import annotations

import apsw
import pytest

from tests.cli.program import Program
from tests.servers.urls import STORES, fresh_url


@pytest.mark.parametrize("kind", STORES)
def test_it_makes_the_yard_once(taskyard: Program, kind: str) -> None:
    url = fresh_url(kind, taskyard.folder)
    missing = taskyard.try_to("migrate", "--check", "--url", url)
    made = taskyard("migrate", "--url", url)
    again = taskyard("migrate", "--url", url)

    assert missing.code == 1
    assert "there is no yard" in missing.complaint
    assert made.startswith("made the yard at ")
    assert again.startswith("nothing to do: ")
    checked = taskyard.json("migrate", "--check", "--url", url)
    assert checked["version"] == checked["newest"] > 0
    assert checked["current"] is True
    assert checked["migrated"] is False


def test_a_check_makes_nothing(taskyard: Program) -> None:
    taskyard.try_to("migrate", "--check")

    assert not taskyard.file.exists()


def test_a_yard_of_a_newer_release_is_left_alone(taskyard: Program) -> None:
    taskyard("migrate")
    db = apsw.Connection(str(taskyard.file))
    db.execute("UPDATE taskyard_meta SET value = 99 WHERE name = 'schema'")
    db.close()

    for words in (["migrate"], ["migrate", "--check"]):
        refused = taskyard.try_to(*words)
        assert refused.code == 5
        assert "made by a newer Taskyard (schema 99" in refused.complaint


def test_the_doctor_tells_of_a_yard_of_an_older_release_and_leaves_it(taskyard: Program) -> None:
    taskyard("migrate")
    db = apsw.Connection(str(taskyard.file))
    db.execute("UPDATE taskyard_meta SET value = 1 WHERE name = 'schema'")

    told = taskyard.try_to("doctor")

    assert told.code == 1
    assert "✗ schema version 1, newest is" in " ".join(told.out.split())
    assert db.execute("SELECT value FROM taskyard_meta WHERE name = 'schema'").get == 1
    db.close()
