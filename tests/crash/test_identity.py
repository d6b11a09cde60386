"""A process is rescued from only if it is proven dead."""

from __future__ import annotations

import errno
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from taskyard.engine.identity import provably_dead, this_process


def _refusing(error: OSError) -> Callable[[Path], NoReturn]:
    def read_text(_path: Path) -> NoReturn:
        raise error

    return read_text


def _nothing() -> None:
    pass


@pytest.mark.spec("engine-20")
def test_a_process_that_ended_is_dead() -> None:
    ended = multiprocessing.get_context("forkserver").Process(target=_nothing)
    ended.start()
    ended.join()
    assert ended.pid is not None

    assert provably_dead(msgspec.structs.replace(this_process(), pid=ended.pid))


@pytest.mark.spec("engine-20")
def test_a_process_whose_number_was_used_again_is_dead() -> None:
    us = this_process()

    assert provably_dead(msgspec.structs.replace(us, started=us.started - 1))


@pytest.mark.spec("engine-20", "engine-19")
def test_another_boot_is_no_proof() -> None:
    """It may be of another machine that has the same name, and lives."""
    assert not provably_dead(msgspec.structs.replace(this_process(), boot="another"))


@pytest.mark.spec("engine-20")
def test_a_process_on_another_host_cannot_be_judged() -> None:
    elsewhere = msgspec.structs.replace(this_process(), host="elsewhere", boot="another", pid=1)

    assert not provably_dead(elsewhere)


@pytest.mark.spec("engine-20")
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "too many open files"),
        PermissionError("not yours"),
        FileNotFoundError("hidden"),
    ],
)
def test_a_live_process_that_cannot_be_looked_at_is_not_dead(
    monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    us = this_process()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    refusing = _refusing(error)

    def read_text(path: Path) -> str:
        return boot if path.name == "boot_id" else refusing(path)

    monkeypatch.setattr(Path, "read_text", read_text)

    assert not provably_dead(us)
