"""Tries one mutant: the store with one text changed, against the tests that must notice.

Meant for a fresh process, forked from one that has pytest and Taskyard in memory already: what
is changed here stays changed.
"""

from __future__ import annotations

import importlib
import io
import os
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from taskyard.store.sqlite import queries
from tests.crash.mutants import Mutant

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "taskyard"
_QUIETLY = ("-q", "-x", "-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin")


def attempt(mutant: Mutant, folder: Path) -> str | None:
    """None if the tests have noticed, otherwise what happened instead."""
    text = (PACKAGE / mutant.file).read_text("utf-8")
    if text.count(mutant.text) != 1:
        return f"{mutant.name}: {mutant.file} has its text {text.count(mutant.text)} times, not 1"
    changed = text.replace(mutant.text, mutant.instead)
    if mutant.file.endswith(".sql"):
        _serve(mutant.file, changed, folder)
    else:
        _execute(mutant.file, changed)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # loading them takes longer than the tests
    shown = io.StringIO()
    with redirect_stdout(shown):
        code = pytest.main(
            [
                *_QUIETLY,
                f"--rootdir={ROOT}",
                f"--basetemp={folder / 'tests'}",
                "-k",
                _chosen(mutant),
            ]
            + [str(ROOT / test) for test in mutant.tests]
        )
    if code == pytest.ExitCode.TESTS_FAILED:
        return None
    return f"{mutant.name}: pytest answered {code}: {shown.getvalue()[-300:]}"


def _chosen(mutant: Mutant) -> str:
    """The mutant is of the SQLite store; the other stores know nothing of it."""
    here = "not redis and not postgres"
    return f"({mutant.only}) and {here}" if mutant.only else here


def _serve(file: str, changed: str, folder: Path) -> None:
    """Let the store read its SQL from a changed copy."""
    copy = folder / "taskyard"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    (copy / file).write_text(changed, "utf-8")
    place: Callable[[str], Path] = lambda _package: copy / "store" / "sqlite"  # noqa: E731
    vars(queries)["files"] = place
    queries.load.cache_clear()


def _execute(file: str, changed: str) -> None:
    """Run a module anew in its place: its functions find each other there."""
    module = importlib.import_module("taskyard." + file.removesuffix(".py").replace("/", "."))
    exec(compile(changed, str(PACKAGE / file), "exec"), vars(module))
