"""Folders of servers: gone with the process that made them, however it ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from multiprocessing.util import Finalize
from pathlib import Path

import psutil


def new_folder(kind: str) -> Path:
    """Named after our process; those of processes that were killed are removed first."""
    prefix, place = f"taskyard-{kind}-", Path(tempfile.gettempdir())
    for folder in place.glob(f"{prefix}*-*"):
        owner = folder.name.removeprefix(prefix).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))


def at_the_end(call: Callable[[], object]) -> None:
    """When this process ends; those that multiprocessing starts do not heed atexit."""
    Finalize(None, call, exitpriority=0)
