"""Settings: where each came from, and what is wrong with one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from taskyard.domain.errors import ConfigurationError, InvalidOption
from taskyard.domain.retention import FOREVER
from taskyard.settings import load, read_age, read_size, variable
from tests.cli.program import Program

pytestmark = pytest.mark.spec("engine-37")


def from_file(folder: Path, text: str, **environ: str) -> dict[str, tuple[Any, str]]:
    (folder / "taskyard.toml").write_text(text)
    loaded = load(environ=environ, folder=folder)
    return {each.name: (each.value, each.source) for each in loaded.each}


def test_without_a_file_everything_is_as_it_comes(tmp_path: Path) -> None:
    loaded = load(environ={}, folder=tmp_path)
    assert {each.source for each in loaded.each} == {"default"}
    assert loaded.settings.url == "sqlite:///yard.db"
    assert loaded.settings.worker.slots == 100


def test_a_flag_stands_above_a_variable_above_the_file(tmp_path: Path) -> None:
    (tmp_path / "taskyard.toml").write_text('url = "sqlite:///a"\n[worker]\nslots = 1\ngrace = 1\n')
    environ = {"TASKYARD_WORKER_SLOTS": "2", "TASKYARD_WORKER_GRACE": "2"}
    loaded = load({"worker.slots": ("--slots", 3)}, environ=environ, folder=tmp_path)
    worker = loaded.settings.worker
    assert (loaded.settings.url, worker.grace, worker.slots) == ("sqlite:///a", 2.0, 3)
    sources = {each.name: each.source for each in loaded.each}
    assert sources["url"] == str(tmp_path / "taskyard.toml")
    assert sources["worker.grace"] == "TASKYARD_WORKER_GRACE"
    assert sources["worker.slots"] == "--slots"
    assert sources["worker.lease"] == "default"


def test_a_variable_names_another_file(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[worker]\nslots = 7\n")
    loaded = load(environ={"TASKYARD_CONFIG": str(other)}, folder=tmp_path)
    assert loaded.settings.worker.slots == 7
    with pytest.raises(ConfigurationError, match=r"gone\.toml cannot be read"):
        load(environ={"TASKYARD_CONFIG": str(tmp_path / "gone.toml")}, folder=tmp_path)


def test_lists_and_tables_may_come_from_variables(tmp_path: Path) -> None:
    environ = {
        "TASKYARD_WORKER_KINDS": "a, b,",
        "TASKYARD_RETENTION_LANES": '{"downloads": {"completed": "1d"}}',
    }
    loaded = load(environ=environ, folder=tmp_path)
    assert loaded.settings.worker.kinds == ["a", "b"]
    assert loaded.retention.lanes["downloads"].completed == timedelta(days=1)


def test_retention_is_as_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "taskyard.toml").write_text(
        "[retention]\ncompleted = '12h'\nfailed = 'forever'\nat = '03:30'\nzone = 'Europe/Berlin'\n"
        "[retention.kinds.scan]\ncancelled = '2w'\n"
    )
    retention = load(environ={}, folder=tmp_path).retention
    assert retention.completed == timedelta(hours=12)
    assert retention.failed == FOREVER
    assert (retention.at.hour, retention.at.minute, retention.zone) == (3, 30, "Europe/Berlin")
    assert retention.kinds["scan"].cancelled == timedelta(weeks=2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("slots = 1", "there is no setting slots; did you mean worker.slots?"),
        ("[worker]\nslot = 1", "there is no setting worker.slot; did you mean worker.slots?"),
        ("[worker]\nslots = 'x'", "worker.slots = 'x': expected int, got str"),
        ("[worker]\nslots = 0", "worker.slots = 0: it must be 1 or more"),
        ("[worker]\ngrace = -1", "worker.grace = -1: it must be 0 or more"),
        ("[worker]\nmemory_limit = 'much'", "a size is a number with kB, MB or GB"),
        ("url = ''", "url = '': it must not be empty"),
        ("worker = 3", "there is no setting worker"),
        ("[retention]\nfailed = '3'", "an age is a number with s, m, h, d or w"),
        ("[retention]\nat = 'noon'", "a time of day is written as 02:00"),
        ("[log]\nlevel = 'loud'", "log.level = 'loud'"),
        ("[server]\nport = 70000", "server.port = 70000: a port is from 0 to 65535"),
        ("[server]\nhost = ''", "server.host = '': it must not be empty"),
        ("[server]\nsecret = 'short'", "server.secret = ***: it must have at least 16 bytes"),
        ("url = ", "is not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_file(tmp_path, text)
    assert complaint in str(caught.value)
    assert "taskyard.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[retention]\nzone = 'Mars/Base'", "Mars/Base"),
        ("[retention.lanes.a]\nfinished = '1d'", "retention.lanes.a"),
        ("[retention.kinds.a]\nfailed = 'long'", "retention.kinds.a: an age is a number"),
    ],
)
def test_a_retention_that_cannot_be_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "taskyard.toml").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        _ = load(environ={}, folder=tmp_path).retention
    assert complaint in str(caught.value)


def test_an_unknown_variable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="did you mean TASKYARD_URL"):
        load(environ={"TASKYARD_ULR": "x"}, folder=tmp_path)
    load(environ={"TASKYARD_TEST_EXAMPLES": "3", "OTHER": "x"}, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "count"), [("500MB", 5e8), ("1.5G", 1.5e9), ("10 kB", 1e4), ("77", 77), ("3B", 3)]
)
def test_sizes(text: str, count: float) -> None:
    assert read_size(text) == count


@pytest.mark.parametrize("text", ["", "1", "d", "1y", "-1d", "1e9d", "\u0661d", "99999999999w"])
def test_what_is_no_age(text: str) -> None:
    with pytest.raises(InvalidOption, match="an age is a number"):
        read_age(text)


# --- the program ---


def test_config_shows_where_each_value_came_from(taskyard: Program) -> None:
    (taskyard.folder / "taskyard.toml").write_text("[worker]\nslots = 3\n")
    shown = taskyard("config", TASKYARD_LOG_LEVEL="debug")
    lines = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    assert lines["worker.slots"] == ["3", "taskyard.toml"]
    assert lines["log.level"] == ["debug", "TASKYARD_LOG_LEVEL"]
    assert lines["worker.grace"] == ["30.0", "default"]
    [slots] = [each for each in taskyard.json("config") if each["name"] == "worker.slots"]
    assert slots == {"name": "worker.slots", "value": 3, "source": "taskyard.toml"}


def test_config_shows_no_password(taskyard: Program) -> None:
    for url in ("postgresql://ann:hunter2@db.example/shop", "postgresql://ann:pa/hunter2@db/shop"):
        shown = taskyard("config", TASKYARD_URL=url)
        assert "hunter2" not in shown
        assert "postgresql://" in shown


@pytest.mark.spec("security-10")
def test_a_url_in_the_wrong_place_is_quoted_without_its_password(taskyard: Program) -> None:
    url = "postgresql://ann:secret@db.example/shop"

    for words in (["doctor", url], ["worker", url], ["stats", "--app", url], [url]):
        refused = taskyard.try_to(*words)
        assert refused.code != 0
        assert "secret" not in refused.err + refused.out


@pytest.mark.spec("security-10")
def test_config_shows_no_secret(taskyard: Program) -> None:
    secret = "0123456789-and-more"
    for shown in (
        taskyard("config", TASKYARD_SERVER_SECRET=secret),
        taskyard("config", "--json", TASKYARD_SERVER_SECRET=secret),
    ):
        assert secret not in shown
        assert "***" in shown


def test_a_worker_and_all_others_heed_the_file(taskyard: Program) -> None:
    (taskyard.folder / "taskyard.toml").write_text("[worker]\nslots = 3\n[log]\nformat = 'json'\n")
    with taskyard.worker("--node", "w1") as worker:
        assert '"slots": 3' in worker.line('"event": "start"')
    (taskyard.folder / "taskyard.toml").write_text("[wroker]\nslots = 3\n")
    done = taskyard.try_to("worker", "app:yard")
    assert done.code == 6
    assert "there is no setting wroker" in done.complaint


def test_the_file_names_the_store(taskyard: Program) -> None:
    taskyard.enqueue("greet", "name=x", "--id", "first")
    (taskyard.folder / "taskyard.toml").write_text(f"url = '{taskyard.url}'\n")
    done = taskyard.try_to("tasks", "list", through=("env", "-u", variable("url")))
    assert done.code == 0, done
    assert "first" in done.out


@pytest.mark.parametrize("command", ["stats", "doctor", "prune --older-than 1d", "tasks list"])
def test_an_empty_url_is_no_url(taskyard: Program, command: str) -> None:
    done = taskyard.try_to(*command.split(), "--url", "")
    assert done.code == 2
    assert done.complaint == "error: --url '': it must not be empty"


def test_a_worker_runs_what_the_settings_name(taskyard: Program) -> None:
    done = taskyard.try_to("worker")
    assert done.code == 2
    assert "say what to run" in done.complaint
    (taskyard.folder / "taskyard.toml").write_text("app = 'app:nonsuch'\n")
    done = taskyard.try_to("worker")
    assert done.code == 6
    assert "app has no attribute nonsuch" in done.complaint


@pytest.mark.parametrize("flag", ["--kinds", "--capabilities"])
def test_a_worker_for_nothing_is_refused(taskyard: Program, flag: str) -> None:
    done = taskyard.try_to("worker", "app:yard", flag, " ,")
    assert done.code == 2
    assert f"{flag} names nothing" in done.complaint
