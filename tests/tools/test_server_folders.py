"""Servers of tests leave nothing behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from tests.servers.folder import at_the_end, new_folder

KILLED = """
import os, signal
from tests.servers.folder import new_folder
print(new_folder("test"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next() -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, check=False)
    assert killed.returncode == -signal.SIGKILL
    left = Path(killed.stdout.decode().strip())
    assert left.is_dir()

    ours, another = new_folder("test"), new_folder("test")

    assert not left.exists()
    assert ours.is_dir()  # we are alive
    ours.rmdir()
    another.rmdir()


def _make_folder(end: Connection) -> None:
    folder = new_folder("test")
    at_the_end(folder.rmdir)
    end.send(str(folder))


def test_a_process_of_a_pool_removes_its_own() -> None:
    context = multiprocessing.get_context("forkserver")
    here, there = context.Pipe()
    child = context.Process(target=_make_folder, args=(there,))
    child.start()
    folder = Path(here.recv())
    child.join()

    assert str(os.getpid()) not in folder.name
    assert child.exitcode == 0
    assert not folder.exists()
