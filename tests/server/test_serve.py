"""`taskyard serve` and `taskyard token`, as processes."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from taskyard import State
from tests.cli.program import PATIENCE, Program, Worker

APP = Path(__file__).parents[1] / "cli" / "yardapp.py"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def taskyard(tmp_path: Path) -> Program:
    shutil.copy(APP, tmp_path / "app.py")
    return Program(tmp_path)


class Served:
    """A server that runs, and what it said when it began."""

    def __init__(self, program: Program, *options: str) -> None:
        self.process = program.start("serve", "app:yard", "--port", "0", *options)
        self.worker = Worker(self.process)  # reads its log
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first.startswith("serving "), (first, self.worker.log)
        self.url = first.split()[1]

    def end(self, number: signal.Signals) -> str:
        """Ask it to stop; the rest of what it printed."""
        self.worker.line("start", "node=")
        self.worker.signal(number)
        code = self.worker.end()
        assert code == 0, self.worker.log
        assert self.process.stdout is not None
        said = self.process.stdout.read()
        self.worker.close()
        return said


@pytest.fixture
def served(taskyard: Program) -> Iterator[Served]:
    made = Served(taskyard)
    yield made
    made.process.kill()
    made.process.wait(PATIENCE)


@pytest.mark.spec("security-1")
@pytest.mark.spec("security-3")
@pytest.mark.spec("engine-26", part="server")
def test_it_serves_runs_and_drains(taskyard: Program, served: Served) -> None:
    assert served.url.startswith("http://127.0.0.1:")
    token = (taskyard.folder / ".taskyard" / "admin-token").read_text().strip()
    assert httpx.get(f"{served.url}/readyz").status_code == 200
    assert httpx.get(f"{served.url}/api/yard").status_code == 401
    with httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {token}"}) as api:
        made = api.post("/api/tasks", json={"kind": "greet", "params": {"name": "you"}}).json()
        taskyard.until(lambda yard: yard.get(made["id"]), lambda task: task.state == "completed")
        assert api.get(f"/api/tasks/{made['id']}").json()["result"] == "hello you"
        assert len(api.get("/api/nodes").json()["items"]) == 1
        assert "\ntaskyard_process_claim_stalls_total 0.0\n" in api.get("/metrics").text
    assert token in served.end(signal.SIGINT)
    again = Served(taskyard)
    said = again.end(signal.SIGTERM)
    assert token not in said
    assert said.endswith("the first one is kept in .taskyard/admin-token\n")
    assert token not in again.worker.log


def test_the_service_of_make_serve_is_busy(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "service.py").rename(tmp_path / "app.py")
    taskyard = Program(tmp_path)
    first = taskyard.enqueue("visitors", "seconds=1")
    served = Served(taskyard)
    for state in (State.COMPLETED, State.RUNNING):
        taskyard.until(lambda yard: yard.counts(), lambda counts: counts[state] > 1)  # noqa: B023
    taskyard.wait_for(first, "completed")
    assert "people are here" in taskyard("logs", first)
    assert [cron["name"] for cron in taskyard.json("cron", "list")] == ["newsletter"]
    # Who comes again finds the long exports that run, and does not fill the lane with more.
    taskyard.wait_for(taskyard.enqueue("visitors", "seconds=1"), "completed")
    assert len(taskyard.json("tasks", "list", "--kind", "export_everything")) == 2
    served.process.kill()
    served.worker.end()
    served.worker.close()


@pytest.mark.spec("engine-26", part="server")
def test_a_server_alone_runs_nothing(taskyard: Program) -> None:
    served = Served(taskyard, "--no-worker")
    taskyard.enqueue("greet", "name=x", "--id", "waits")
    later = taskyard.enqueue("greet", "name=x", "--delay", "0.01")
    # It does the upkeep all the same: what is due is queued.
    taskyard.until(lambda yard: yard.get(later), lambda task: task.state == "queued")
    assert taskyard.task("waits")["state"] == "queued"
    served.end(signal.SIGTERM)


@pytest.mark.spec("security-3")
def test_others_can_reach_it_only_with_tokens(taskyard: Program) -> None:
    done = taskyard.try_to("serve", "app:yard", "--host", "0.0.0.0", "--port", "0")
    assert done.code == 6
    assert "taskyard token add" in done.complaint
    assert not (taskyard.folder / ".taskyard" / "admin-token").exists()


CERTIFICATE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=yard -keyout key.pem -out cert.pem"
    " -addext subjectAltName=IP:127.0.0.1"
)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
@pytest.mark.spec("security-3")
def test_it_serves_over_tls(taskyard: Program) -> None:
    subprocess.run(
        shlex.split(CERTIFICATE),
        cwd=taskyard.folder,
        check=True,
        capture_output=True,
    )
    served = Served(taskyard, "--tls-cert", "cert.pem", "--tls-key", "key.pem")
    assert served.url.startswith("https://127.0.0.1:")
    trusted = ssl.create_default_context(cafile=str(taskyard.folder / "cert.pem"))
    token = (taskyard.folder / ".taskyard" / "admin-token").read_text().strip()
    with httpx.Client(base_url=served.url, verify=trusted) as browser:
        answer = browser.post("/api/login", json={"token": token})
        assert answer.status_code == 200
        assert "; secure" in answer.headers["Set-Cookie"].lower()
    served.end(signal.SIGTERM)


BAD = {
    "no app": ((), 2),
    "no such app": (("nonsuch:yard",), 6),
    "bad port": (("app:yard", "--port", "99999"), 2),
    "half of TLS": (("app:yard", "--tls-cert", "app.py"), 6),
    "no such file": (("app:yard", "--tls-cert", "no.pem", "--tls-key", "no.key"), 6),
    "no certificate": (("app:yard", "--tls-cert", "app.py", "--tls-key", "app.py"), 6),
    "no address": (("app:yard", "--host", ""), 2),
    "no such address": (("app:yard", "--host", "203.0.113.1.1"), 6),
}


def test_the_first_token_is_shown_by_the_first_start_that_works(taskyard: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = taskyard.try_to("serve", "app:yard", "--port", str(taken.getsockname()[1]))
    assert (done.code, done.complaint.startswith("error: cannot listen")) == (6, True)
    served = Served(taskyard)
    said = served.end(signal.SIGTERM)
    assert (taskyard.folder / ".taskyard" / "admin-token").read_text().strip() in said


@pytest.mark.parametrize(("args", "code"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(taskyard: Program, args: tuple[str, ...], code: int) -> None:
    taskyard("token", "add", "me")
    done = taskyard.try_to("serve", *args)
    assert done.code == code, done
    assert done.complaint.startswith("error: ")


def test_without_the_extra_it_says_what_to_install(taskyard: Program) -> None:
    hidden = (
        "import sys; sys.modules['litestar'] = None; from taskyard.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden, "serve", "app:yard"],
        cwd=taskyard.folder,
        env=taskyard.env(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 6
    assert "pip install 'taskyard[server]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spec("security-6")
def test_tokens_are_made_listed_and_taken_back(taskyard: Program) -> None:
    token = taskyard("token", "add", "ci", "--role", "operator", "--days", "30").strip()
    assert token.startswith("ty1_")
    assert "\n" not in token
    [one] = taskyard.json("token", "list")
    assert (one["name"], one["role"], one["revoked_at"]) == ("ci", "operator", None)
    assert token not in json.dumps(one)
    assert one["id"] in taskyard("token", "list")
    assert "revoked" in taskyard("token", "revoke", one["id"])
    assert taskyard.json("token", "list")[0]["revoked_at"] is not None
    assert taskyard.try_to("token", "revoke", "nonsuch").code == 3
    assert taskyard.try_to("token", "add", "x", "--days", "-1").code == 2
    assert taskyard("token", "list", "--folder", "elsewhere").strip() == "no tokens"
