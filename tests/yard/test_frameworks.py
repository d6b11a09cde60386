"""Web frameworks that block, with threads as their servers have them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import django  # type: ignore[import-untyped]
import flask
import pytest
from django.conf import settings  # type: ignore[import-untyped]
from django.http import HttpRequest, JsonResponse  # type: ignore[import-untyped]
from django.test import Client  # type: ignore[import-untyped]
from django.urls import path  # type: ignore[import-untyped]

from taskyard import State, TaskKind, Yard

pytestmark = pytest.mark.spec("engine-35")


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    yard = Yard(f"sqlite:///{tmp_path / 'yard.db'}")
    yield yard
    yard.sync.close()


@pytest.fixture
def send(yard: Yard) -> TaskKind[[str], None]:
    @yard.task()
    async def send(to: str) -> None: ...

    return send


def test_flask(yard: Yard, send: TaskKind[[str], None]) -> None:
    app = flask.Flask("shop")

    @app.post("/send/<to>")
    def post(to: str) -> dict[str, str]:
        return {"task": send.options(key=f"mail:{to}").sync.enqueue(to).id}

    @app.get("/tasks/<task>")
    def get(task: str) -> dict[str, str]:
        return {"state": yard.sync.handle(task).status()}

    def visit(number: int) -> str:
        client = app.test_client()
        task = client.post(f"/send/ann{number}").get_json()["task"]
        return str(client.get(f"/tasks/{task}").get_json()["state"])

    with ThreadPoolExecutor(8) as server:
        assert set(server.map(visit, range(40))) == {"queued"}
    assert yard.sync.counts()[State.QUEUED] == 40


def django_view(request: HttpRequest, to: str) -> JsonResponse:
    return JsonResponse({"task": of_django["send"].sync.enqueue(to).id})


of_django: dict[str, TaskKind[[str], None]] = {}
urlpatterns = [path("send/<to>", django_view)]


def test_django(yard: Yard, send: TaskKind[[str], None]) -> None:
    of_django["send"] = send
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
    django.setup(set_prefix=False)

    def visit(number: int) -> str:
        return str(Client().post(f"/send/ann{number}").json()["task"])

    with ThreadPoolExecutor(8) as server:
        assert len(set(server.map(visit, range(40)))) == 40
    assert yard.sync.counts()[State.QUEUED] == 40
