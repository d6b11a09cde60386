"""docs/recipes/django.md: real projects, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from taskyard import State, Yard
from taskyard.domain.task import new_task_id
from tests.recipes.django_project import project
from tests.recipes.recipe import Recipe
from tests.servers.postgres import shared_url

pytestmark = pytest.mark.spec("engine-35")

PAID = {"card": "4242"}


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Recipe:
    file = str(tmp_path / "django.sqlite3")
    return project(tmp_path, {"ENGINE": "django.db.backends.sqlite3", "NAME": file})


@pytest.fixture
def on_postgres(tmp_path: Path) -> Iterator[Recipe]:
    """A database of its own, for Django's tables and for the yard."""
    name = f"shop_{new_task_id()}"
    server = urlsplit(shared_url())
    with psycopg.connect(shared_url(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name,
            "HOST": server.hostname,
            "PORT": server.port,
            "USER": server.username,
            "PASSWORD": server.password or "",
        }
        url = server._replace(path=f"/{name}").geturl()
        yield project(tmp_path, database, TASKYARD_URL=url)
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def visit(recipe: Recipe, *requests: tuple[str, dict[str, str]]) -> tuple[list[int], int]:
    """How the requests were answered, and how many orders there are then."""
    done = recipe.run("visit.py", stdin=json.dumps(requests))
    assert done.code == 0, done.err
    answers, orders = json.loads(done.out)
    return answers, orders


def receipts(recipe: Recipe) -> list[Any]:
    """What the tasks have returned, when a worker has run them."""
    with Yard(recipe.url).sync as yard:
        assert {task.state for task in yard.find()} <= {State.QUEUED}
        with recipe.worker("project.worker:yard"):
            return [yard.handle(task.id).result(timeout=60) for task in yard.find()]


def test_a_rollback_enqueues_nothing(on_sqlite: Recipe) -> None:
    answers = visit(on_sqlite, ("/orders/7", PAID), ("/orders/8", {}), ("/orders/9", PAID))
    assert answers == ([201, 402, 201], 2)
    assert receipts(on_sqlite) == ["receipt of order 9", "receipt of order 7"]


@pytest.mark.spec("engine-27")
def test_on_postgres_after_the_commit_and_inside_the_transaction(on_postgres: Recipe) -> None:
    assert on_postgres.run("-m", "taskyard", "migrate").code == 0
    answers = visit(
        on_postgres,
        ("/orders/1", PAID),
        ("/orders/2", {}),
        ("/transactional/3", PAID),
        ("/transactional/4", {}),
    )
    assert answers == ([201, 402, 201, 402], 2)
    assert receipts(on_postgres) == ["receipt of order 3", "receipt of order 1"]


def test_a_task_can_be_imported_where_nobody_has_set_django_up(on_sqlite: Recipe) -> None:
    """As in the process of an isolated task."""
    done = on_sqlite.run("-c", "from shop.tasks import send_receipt; print(send_receipt.name)")
    assert (done.code, done.out) == (0, "send_receipt\n"), done.err


@pytest.mark.spec("engine-36")
def test_its_tests_pass(on_sqlite: Recipe) -> None:
    done = on_sqlite.run("-m", "django", "test", "--settings", "project.settings")
    assert done.code == 0, done.err
    assert "Ran 2 tests" in done.err
    assert not (on_sqlite.folder / "yard.db").exists()
