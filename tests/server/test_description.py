"""The API does what its description says, also with data that is wrong in every way.

TASKYARD_TEST_EXAMPLES=200 tries as many requests of each route, all different from the last time.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, openapi
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from taskyard.server import docs
from tests.cli.program import Program
from tests.server.place import Place
from tests.server.test_security import routes
from tests.server.test_serve import APP, Served

EXAMPLES = int(os.environ.get("TASKYARD_TEST_EXAMPLES", "0"))
USUAL = 5
STREAMS = {"/api/events", "/api/tasks/{task_id}/logs/stream"}  # would never end
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
ENDS_OTHERS = {("DELETE", "/api/tokens/{token_id}")}  # of the one who asks too


def described(schema: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (method.upper(), path)
        for path, item in schema["paths"].items()
        for method in item
        if method in ("get", "post", "put", "patch", "delete")
    }


async def test_every_route_is_described(place: Place, api: httpx.AsyncClient) -> None:
    schema = (await api.get("/api/openapi.json")).json()
    hidden = ("/api/docs", "/api/openapi.json", "/api/schema", "/dashboard")
    there = {
        (method, path)
        for method, path, _ in routes(place)
        if method != "OPTIONS" and not path.startswith(hidden)
    }
    told = {(method, path.replace("{", "").replace("}", "")) for method, path in described(schema)}
    assert told == there
    assert schema["info"]["title"] == "Taskyard"
    for item in schema["paths"].values():
        assert all(one.get("summary") for one in item.values())


async def test_it_says_how_errors_look_and_what_is_open(api: httpx.AsyncClient) -> None:
    schema = (await api.get("/api/openapi.json")).json()
    fields = schema["components"]["schemas"]["Problem"]
    told = (await api.get("/api/tasks/nonsuch")).json()
    assert set(fields["required"]) <= set(told) <= set(fields["properties"])
    open_to_all = set()
    for path, item in schema["paths"].items():
        for operation in item.values():
            [(kind, one)] = operation["responses"]["default"]["content"].items()
            assert kind == "application/problem+json"
            assert one["schema"]["$ref"].endswith("/Problem")
            assert "400" not in operation["responses"]
            if operation.get("security") == []:
                open_to_all.add(path)
    assert open_to_all == {"/healthz", "/readyz", "/api/login"}
    assert list(schema["paths"]["/metrics"]["get"]["responses"]["200"]["content"]) == ["text/plain"]
    assert set(schema["paths"]["/api/tasks"]["post"]["responses"]) == {"200", "201", "default"}


async def test_the_page_loads_nothing_from_outside(api: httpx.AsyncClient) -> None:
    page = await api.get("/api/docs")
    assert page.headers["Content-Type"].startswith("text/html")
    assert 'src="docs/docs.js"' in page.text
    for path in docs.PAGES.iterdir():
        text = path.read_text("utf-8")
        assert "http:" not in text
        assert "https:" not in text
        assert "innerHTML" not in text
    for name, kind in (("docs.js", "text/javascript"), ("docs.css", "text/css")):
        answer = await api.get(f"/api/docs/{name}")
        assert answer.headers["Content-Type"].startswith(kind)
    for name in ("nonsuch", "..%2Fapp.py", "docs.html"):
        assert (await api.get(f"/api/docs/{name}")).status_code == 404


class Running:
    """A server of its own, with some things in it to be found."""

    def __init__(self, folder: Path) -> None:
        shutil.copy(APP, folder / "app.py")
        program = Program(folder)
        program.enqueue("greet", "name=x", "--id", "0")
        self.served = Served(program, "--no-worker")
        token = (folder / ".taskyard" / "admin-token").read_text().strip()
        self.session = requests.Session()
        self.headers = {"Authorization": f"Bearer {token}"}
        answer = requests.get(
            f"{self.served.url}/api/openapi.json", headers=self.headers, timeout=30
        )
        self.schema = openapi.from_dict(answer.json())

    def operations(self) -> Iterator[Any]:
        for found in self.schema.get_all_operations():
            assert isinstance(found, Ok), found
            operation = found.ok()
            name = operation.method.upper(), operation.path
            if operation.path not in STREAMS and name not in ENDS_OTHERS:
                yield operation

    def close(self) -> None:
        self.session.close()
        self.served.process.kill()
        self.served.worker.end()
        self.served.worker.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("described"))
    yield made
    made.close()


@pytest.mark.spec("security-12", part="HTTP")
@pytest.mark.spec("security-16")
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.filterwarnings("ignore")  # of generators that cannot make everything
def test_whatever_is_sent_no_answer_is_an_error_of_ours(
    running: Running, mode: GenerationMode
) -> None:
    tried = 0
    for operation in running.operations():

        def ask(case: Any) -> None:
            nonlocal tried
            tried += 1
            answer = case.call(
                base_url=running.served.url, session=running.session, headers=running.headers
            )
            case.validate_response(answer, checks=CHECKS)
            assert answer.status_code != 401 or case.path == "/api/login", answer.text
            if answer.status_code >= 400:
                told = answer.json()
                assert told["code"], told
                assert told["status"] == answer.status_code

        bounded = settings(
            max_examples=EXAMPLES or USUAL,
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        strategy = operation.as_strategy(generation_mode=mode)
        try:
            bounded(given(case=strategy)(ask))()
        except Unsatisfiable:
            continue  # nothing about this route can be wrong
    assert tried > 40


@pytest.mark.spec("security-16")
@pytest.mark.filterwarnings("ignore")
def test_without_a_token_everything_is_refused(running: Running) -> None:
    for operation in running.operations():
        path = re.sub(r"\{\w+\}", "0", operation.path)
        answer = running.session.request(
            operation.method, f"{running.served.url}{path}", json={}, timeout=30
        )
        if operation.path in ("/healthz", "/readyz"):
            assert answer.status_code == 200
        elif operation.path == "/api/login":
            assert answer.status_code == 422
        else:
            assert answer.status_code == 401, operation.path
