"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("engine-36")

APP = """
from taskyard import Yard

yard = Yard("sqlite:////nowhere/at/all.db")

@yard.task()
async def greet(name: str) -> str:
    return f"hello {name}"
"""

# Plugins that are installed here for other tests, and take seconds to import.
WITHOUT = [
    f"-pno:{name}" for name in ("cacheprovider", "schemathesis", "hypothesispytest", "faker")
]


def run(folder: Path, test: str, settings: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "shop.py").write_text(APP)
    (folder / "test_shop.py").write_text(test)
    (folder / "pytest.ini").write_text(f"[pytest]\n{settings}\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *WITHOUT],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_fixtures_know_the_yard_of_the_settings(tmp_path: Path) -> None:
    test = """
import asyncio
from shop import greet

def test_blocking(trial):
    greet.sync.enqueue("ann")
    trial.assert_enqueued(greet, name="ann")
    assert [ran.result for ran in trial.drain()] == ["hello ann"]

def test_awaiting(trial_on_loop):
    async def on_loop():
        async with trial_on_loop() as trial:
            await greet.enqueue("bob")
            assert [ran.result for ran in await trial.drain()] == ["hello bob"]
    asyncio.run(on_loop())
"""
    done = run(tmp_path, test, "taskyard_app = shop:yard")
    assert "2 passed" in done.stdout, done.stdout


def test_the_yard_may_be_a_fixture(tmp_path: Path) -> None:
    test = """
import pytest
import shop

@pytest.fixture
def taskyard_yard():
    return shop.yard

def test_it(trial):
    assert trial.drain() == []
"""
    assert "1 passed" in run(tmp_path, test).stdout


@pytest.mark.parametrize(
    ("settings", "told"),
    [("", "which yard? set taskyard_app"), ("taskyard_app = shop:no", "shop has no attribute no")],
)
def test_a_yard_that_is_not_named_or_not_there_is_told(
    tmp_path: Path, settings: str, told: str
) -> None:
    done = run(tmp_path, "def test_it(trial): ...", settings)
    assert done.returncode != 0
    assert told in done.stdout


def test_the_plugin_alone_imports_nothing_of_taskyard(tmp_path: Path) -> None:
    test = """
import sys

def test_it():
    assert "pytest_taskyard" in sys.modules
    assert "taskyard.yard" not in sys.modules
"""
    done = run(tmp_path, test)
    assert "1 passed" in done.stdout, done.stdout
