"""docs/recipes/flask.md: threads as its servers have them, and a worker beside."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from taskyard import State
from tests.recipes.recipe import Recipe

pytestmark = pytest.mark.spec("engine-35")


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return Recipe("flask", tmp_path)


@pytest.fixture
def web(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The application, imported from its folder."""
    monkeypatch.syspath_prepend(recipe.folder)
    monkeypatch.setenv("TASKYARD_URL", recipe.url)
    web = importlib.import_module("web")
    yield web
    web.yard.sync.close()
    for name in ("web", "tasks"):
        del sys.modules[name]


def test_threads_enqueue_and_look(web: ModuleType) -> None:
    def visit(number: int) -> str:
        client = web.app.test_client()
        answer = client.post(f"/orders/{number}")
        assert answer.status_code == 202
        return str(client.get(f"/tasks/{answer.json['task']}").json["state"])

    with ThreadPoolExecutor(8) as server:
        assert set(server.map(visit, range(40))) == {"queued"}
    assert web.yard.sync.counts()[State.QUEUED] == 40


def test_a_worker_beside_it_runs_what_was_ordered(recipe: Recipe, web: ModuleType) -> None:
    client = web.app.test_client()
    client.post("/orders/7")
    client.post("/orders/8")
    assert client.delete("/tasks/receipt-8").json == {"answer": "cancelled"}
    with recipe.worker("tasks:yard"):
        sent = web.yard.sync.handle("receipt-7").result(timeout=60)
    assert client.get("/tasks/receipt-7").json == {
        "state": "completed",
        "result": sent,
        "error": None,
    }
    assert client.get("/tasks/nonsuch").status_code == 404


def test_a_full_lane_is_told_with_503(web: ModuleType) -> None:
    web.yard.sync.set_lane("mail", max_depth=1)
    client = web.app.test_client()
    assert client.post("/orders/1").status_code == 202
    refused = client.post("/orders/2")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")


@pytest.mark.spec("engine-36")
def test_its_tests_pass(recipe: Recipe) -> None:
    done = recipe.run("-m", "pytest", "-q", "test_web.py")
    assert done.code == 0, done.out
    assert "1 passed" in done.out
    assert not (recipe.folder / "yard.db").exists()
