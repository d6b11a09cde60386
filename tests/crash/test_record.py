from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from tests.crash.record import Recorder, Tail, What, read


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "record"
    recorder = Recorder(path, "node")
    with recorder.body("t", 3, ["k"], "lane"):
        pass
    recorder.write(What.KILL, pid=7)

    start, end, kill = read(path)

    assert (start.what, start.task, start.attempt, start.keys) == (What.START, "t", 3, ("k",))
    assert (end.what, end.how, end.lane, end.pid) == (What.END, "ok", "lane", os.getpid())
    assert start.at <= end.at <= kill.at
    assert kill.pid == 7


def test_how_a_body_ended_is_written_down(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "record")

    with pytest.raises(KeyError), recorder.body("t", 1, (), ""):
        raise KeyError

    assert [line.how for line in read(tmp_path / "record")] == ["", "KeyError"]


def test_a_torn_line_spoils_nothing_but_itself(tmp_path: Path) -> None:
    path = tmp_path / "record"
    recorder = Recorder(path)
    tail = Tail(path)
    recorder.write(What.SAVED, task="one")
    with path.open("ab") as file:
        file.write(b'\n{"what":"saved","at":12')
    recorder.write(What.SAVED, task="two")

    assert [line.task for line in tail.fresh()] == ["one", "two"]
    assert tail.torn == 1


def test_a_line_that_is_not_there_in_full_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "record"
    Recorder(path).write(What.SAVED, task="one")
    whole = path.read_bytes()
    path.write_bytes(whole[:10])
    tail = Tail(path)
    assert tail.fresh() == []

    path.write_bytes(whole)

    assert [line.task for line in tail.fresh()] == ["one"]


def _write_many(path: Path, count: int) -> None:
    recorder = Recorder(path)
    for number in range(count):
        recorder.write(What.SAVED, task=f"{os.getpid()}-{number}")


def test_lines_of_many_processes_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "record"
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=_write_many, args=(path, 500)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    tail = Tail(path)
    assert len({line.task for line in tail.fresh()}) == 1500
    assert tail.torn == 0
