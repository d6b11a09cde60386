"""What `import taskyard` costs: every command, and every process that enqueues, pays for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = "import sys, taskyard{then}; print(*sys.modules)"

# Slow to import, and needed by some only: logs, a worker, its isolated processes, tests, drivers.
LATER = {
    "apsw",
    "asyncpg",
    "email.utils",
    "psutil",
    "redis",
    "rich",
    "structlog",
    "taskyard.engine.isolate.executor",
    "taskyard.store.postgres",
    "taskyard.store.redis",
    "taskyard.store.sqlite",
    "taskyard.trial",
    "typer",
}


def loaded(then: str = "") -> set[str]:
    command = [sys.executable, "-c", LOADED.format(then=then)]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(said.stdout.split())


@pytest.mark.spec("engine-28")
def test_what_only_some_need_is_imported_later() -> None:
    assert loaded() & LATER == set()


@pytest.mark.spec("engine-28")
def test_a_yard_imports_its_own_store_only() -> None:
    names = loaded("; taskyard.Yard('sqlite://:memory:')")
    assert names & LATER == {"apsw", "taskyard.store.sqlite"}
