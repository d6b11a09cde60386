"""docs/recipes/fastapi.md, served by uvicorn."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.cli.program import Worker
from tests.recipes.recipe import Recipe

WAIT = {"wait": "30"}


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return Recipe("fastapi", tmp_path)


@contextmanager
def served(recipe: Recipe, **environ: str) -> Iterator[httpx.Client]:
    server = Worker(recipe.start("-m", "uvicorn", "web:app", "--port", "0", **environ))
    with ExitStack() as stack:
        stack.push(server)  # gone in any case
        address = server.line("Uvicorn running on").partition(" on ")[2].split()[0]
        with httpx.Client(base_url=address, timeout=60) as client:
            yield client
        server.signal(signal.SIGTERM)
        assert server.end() in (0, -signal.SIGTERM)  # uvicorn sends it to itself again
        assert "Application shutdown complete" in server.log
        assert "Traceback" not in server.log


def test_in_development_one_process_does_it_all(recipe: Recipe) -> None:
    with served(recipe, SHOP_WORKER="1") as client:
        answer = client.post("/orders/7")
        assert (answer.status_code, answer.json()) == (202, {"task": "receipt-7"})
        assert client.get("/tasks/receipt-7", params=WAIT).json() == {
            "state": "completed",
            "result": "receipt of order 7 sent",
            "error": None,
        }
        assert client.post("/orders/7").json() == {"task": "receipt-7"}
        assert client.get("/tasks/nonsuch").status_code == 404


def test_in_production_workers_are_processes_of_their_own(recipe: Recipe) -> None:
    with served(recipe) as client:
        client.post("/orders/7")
        client.post("/orders/8")
        assert client.get("/tasks/receipt-7").json()["state"] == "queued"
        assert client.delete("/tasks/receipt-8").json() == {"answer": "cancelled"}
        with recipe.worker("tasks:yard"):
            answer = client.get("/tasks/receipt-7", params=WAIT).json()
        assert answer["result"] == "receipt of order 7 sent"
        assert client.get("/tasks/receipt-8").json()["state"] == "cancelled"


def test_a_full_lane_is_told_with_503(recipe: Recipe) -> None:
    limit = "import asyncio, tasks; asyncio.run(tasks.yard.set_lane('mail', max_depth=1))"
    recipe.write("limit.py", limit)
    with served(recipe) as client:
        assert recipe.run("limit.py").code == 0
        assert client.post("/orders/1").status_code == 202
        refused = client.post("/orders/2")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert "mail" in refused.json()["error"]


@pytest.mark.spec("engine-36")
def test_its_tests_pass(recipe: Recipe) -> None:
    done = recipe.run("-m", "pytest", "-q", "-o", "asyncio_mode=auto", "test_web.py")
    assert done.code == 0, done.out
    assert "1 passed" in done.out
    assert not (recipe.folder / "yard.db").exists()
