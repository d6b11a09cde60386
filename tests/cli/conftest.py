from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.cli.program import Program

# A suite that was started in the background ignores Ctrl-C, and its children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def taskyard(tmp_path: Path) -> Program:
    """The program, beside a copy of the application."""
    return _beside_app(tmp_path)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The same for all tests of a file that only look, with one task called first."""
    program = _beside_app(tmp_path_factory.mktemp("lasting"))
    program.enqueue("greet", "name=x", "--id", "first")
    return program


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("place"))
    yield made
    made.close()


def _beside_app(folder: Path) -> Program:
    shutil.copy(Path(__file__).with_name("yardapp.py"), folder / "app.py")
    return Program(folder)
