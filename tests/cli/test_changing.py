"""Changing lanes, keys, tasks and periodic tasks from the command line."""

from __future__ import annotations

import signal

import pytest

from taskyard.cli.rates import rate_text, read_rate
from taskyard.domain.errors import InvalidOption
from taskyard.domain.rate import Rate
from tests.cli.program import Program


@pytest.mark.spec("engine-3")
def test_a_lane_is_changed_bit_by_bit(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x", "--lane", "mail")
    taskyard("lanes", "set", "mail", "--capacity", "3", "--max-depth", "2")
    lane = taskyard.json("lanes", "set", "mail", "--rate", "10/m", "--burst", "4")
    assert (lane["capacity"], lane["max_depth"]) == (3, 2)
    assert lane["rate"] == {"starts": 10, "seconds": 60.0, "burst": 4}
    shown = taskyard("lanes", "set", "mail", "--order", "fair", "--capacity", "none")
    assert "fair, 10/m, 4 at once, at most 2 wait" in shown
    lane = taskyard.json("lanes", "set", "mail", "--rate", "none", "--order", "priority")
    assert (lane["rate"], lane["order"], lane["capacity"]) == (None, "priority", None)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "say what to change"),
        (["--rate", "fast"], "--rate takes so many in a time"),
        (["--rate", "0/s"], "a rate needs 1 to"),
        (["--burst", "3"], "--burst goes with --rate"),
        (["--capacity", "x"], "--capacity takes a number or none"),
        (["--max-depth", "-1"], "max depth must be from 0"),
        (["--ageing", "soon"], "--ageing takes seconds or none"),
        (["--ageing", "0"], "ageing is the seconds"),
        (["--order", "random"], "'random' is not one of"),
    ],
)
def test_what_a_lane_cannot_be(lasting: Program, args: list[str], told: str) -> None:
    done = lasting.try_to("lanes", "set", "mail", *args)
    assert done.code == 2
    assert told in done.complaint


def test_beyond_its_depth_a_lane_refuses(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x", "--lane", "mail")
    taskyard("lanes", "set", "mail", "--max-depth", "1")
    done = taskyard.try_to("enqueue", "app:yard", "greet", "name=y", "--lane", "mail")
    assert done.code == 8
    assert "lane mail is full: 1 tasks wait" in done.complaint


@pytest.mark.spec("lifecycle-2")
def test_a_pause_may_have_an_end(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x", "--id", "first", "--lane", "mail")
    lane = taskyard.json("lanes", "pause", "mail", "--for", "30m", "--reason", "lunch")
    assert lane["paused_until"].endswith("Z")
    assert "paused until" in taskyard("lanes", "list")
    taskyard("pause", "--for", "1h")
    why = taskyard("tasks", "explain", "first")
    assert "the yard is paused" in why
    done = taskyard.try_to("pause", "--for", "ever")
    assert done.code == 2
    assert "an age is a number" in done.complaint


def test_a_key_may_have_a_rate(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x")
    [rule] = taskyard.json("keys", "limit", "host:*", "4", "--rate", "2/s")
    assert (rule["limit"], rule["rate"]["starts"]) == (4, 2)
    assert "2/s" in taskyard("keys", "rules")
    assert taskyard.try_to("keys", "limit", "k", "1", "--burst", "2").code == 2


@pytest.mark.spec("engine-25")
def test_a_task_is_paused_and_resumed(taskyard: Program) -> None:
    task_id = taskyard.enqueue("greet", "name=x")
    assert taskyard("tasks", "pause", task_id) == f"{task_id}  paused\n"
    assert taskyard.task(task_id)["state"] == "paused"
    assert taskyard("tasks", "resume", task_id) == f"{task_id}  queued\n"
    done = taskyard.try_to("tasks", "resume", task_id)
    assert done.code == 4


@pytest.mark.spec("lifecycle-18")
def test_periodic_tasks_are_edited(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x")
    assert taskyard("cron", "list") == "nothing is started periodically\n"
    [entry] = taskyard.json("cron", "set", "app:yard", "hello", "*/5 * * * *", "greet", "name=y")
    assert (entry["kind"], entry["payload"], entry["catch_up"]) == ("greet", {"name": "y"}, "one")
    assert entry["next_at"] is not None
    assert "paused" in taskyard("cron", "pause", "hello")
    assert "paused" not in taskyard("cron", "resume", "hello")
    taskyard("cron", "drop", "hello")
    done = taskyard.try_to("cron", "drop", "hello")
    assert done.code == 3
    assert "there is no cron hello" in done.complaint


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["every day", "greet", "name=y"], "is no schedule"),
        (["* * * * *", "greet"], "name"),
        (["* * * * *", "nonsuch"], "there is no task called nonsuch"),
        (["* * * * *", "greet", "name=y", "--timezone", "Mars/Base"], "no time zone 'Mars/Base'"),
    ],
)
def test_what_a_periodic_task_cannot_be(lasting: Program, args: list[str], told: str) -> None:
    done = lasting.try_to("cron", "set", "app:yard", "hello", *args)
    assert done.code == 2
    assert told in done.complaint


@pytest.mark.spec("lifecycle-16")
def test_stats_show_how_kinds_fare(taskyard: Program) -> None:
    with taskyard.worker() as worker:
        task_id = taskyard.enqueue("greet", "name=x")
        taskyard.wait_for(task_id, "completed")
        worker.signal(signal.SIGTERM)  # what it has counted is written when it stops
        worker.end()
    [kind] = taskyard.json("stats")["kinds"]
    assert (kind["kind"], kind["ended"], kind["success"]) == ("greet", {"completed": 1}, 1.0)
    assert "greet" in taskyard("stats")


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", Rate(10)),
        ("100/m", Rate(100, 60.0)),
        ("5/30s", Rate(5, 30.0)),
        ("1/2h", Rate(1, 7200.0)),
        ("3/1.5s", Rate(3, 1.5)),
    ],
)
def test_rates_as_they_are_typed_and_shown(text: str, rate: Rate) -> None:
    assert read_rate(text, None) == rate
    assert rate_text(rate) == text


@pytest.mark.parametrize("text", ["", "10", "/s", "10/", "10/x", "-1/s", "10 / s"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(InvalidOption, match="--rate takes"):
        read_rate(text, None)
