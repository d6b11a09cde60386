"""What goes wrong between a command and a server: one line each, and no token in it."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

import taskyard
from tests.cli.place import Place, Remote
from tests.cli.program import PATIENCE, Program
from tests.cli.strangers import PROBLEM, Said, problem, stranger
from tests.server.test_serve import CERTIFICATE, Served


@pytest.mark.parametrize("command", ["doctor", "migrate"])
def test_what_needs_the_store_itself_says_so(place: Place, command: str) -> None:
    done = place.remote.try_to(command)
    assert done.code == 2
    assert "store itself" in done.complaint


@pytest.mark.parametrize("more", [("--url", "sqlite:///x.db"), ("--app", "app:yard")])
def test_only_one_yard_can_be_meant(place: Place, more: tuple[str, str]) -> None:
    done = place.remote.try_to("stats", *more)
    assert done.code == 2
    assert "only one of" in done.complaint
    alone = place.local.try_to("stats", "--token-file", "x")
    assert (alone.code, alone.complaint) == (2, "error: --token-file goes with --server")


def test_tokens_that_are_not_good_enough(place: Place) -> None:
    assert "Tasks" in place.viewer("stats")
    done = place.viewer.try_to("pause")
    assert done.code == 6
    assert done.complaint == "error: this is for the role operator, yours is viewer"
    done = place.viewer.try_to("stats", "--json", TASKYARD_TOKEN="ty1_nonsense")
    assert done.code == 6
    assert json.loads(done.complaint)["error"]["code"] == "unauthorized"
    done = place.viewer.try_to("stats", TASKYARD_TOKEN="")
    assert done.code == 6
    assert "TASKYARD_TOKEN" in done.complaint
    done = place.viewer.try_to("stats", TASKYARD_TOKEN="two\nlines")
    assert (done.code, done.complaint) == (6, "error: TASKYARD_TOKEN holds no token")


def test_a_file_with_the_token(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{place.viewer.token}\n")
    file.chmod(0o640)
    args = ("stats", "--token-file", str(file))
    done = place.viewer.try_to(*args, TASKYARD_TOKEN="ty1_another")
    assert (done.code, done.complaint) == (
        6,
        f"error: {file} can be read by others; run: chmod 600 {file}",
    )
    file.chmod(0o600)
    assert place.viewer.try_to(*args, TASKYARD_TOKEN="ty1_another").code == 0
    file.write_bytes(b"\xff\xfe")
    assert place.viewer.try_to(*args).complaint == f"error: {file} holds no token"
    file.unlink()
    assert "cannot be read" in place.viewer.try_to(*args).complaint


def test_the_token_variable_is_no_setting(place: Place) -> None:
    assert place.local.try_to("stats", TASKYARD_TOKEN="ty1_x").code == 0


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8321", "ftp://127.0.0.1", "http://", "http://me:pass@127.0.0.1", "http://[::1"],
)
def test_a_url_that_is_none(place: Place, url: str) -> None:
    done = Remote(place.remote.program.folder, url, place.remote.token).try_to("stats")
    assert done.code == 6
    assert "pass@" not in done.complaint


def test_nobody_there(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = Remote(place.remote.program.folder, f"http://127.0.0.1:{port}", "ty1_made_up").try_to(
        "stats"
    )
    assert done.code == 5
    assert done.complaint == f"error: no answer from http://127.0.0.1:{port}: Connection refused"
    asked = Remote(place.remote.program.folder, "http://no-such-host.invalid", "ty1_made_up")
    assert asked.try_to("stats").code == 5


def test_ctrl_c_does_not_wait_for_an_answer(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(place.remote.token)
    file.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        asking = place.remote.program.start("prune", "--server", url, "--token-file", str(file))
        line, _ = silent.accept()
        with line:
            line.settimeout(PATIENCE)
            assert line.recv(100).startswith(b"POST /api/prune HTTP/1.1")
            asking.send_signal(signal.SIGINT)
            out, err = asking.communicate(timeout=PATIENCE)
    assert (asking.returncode, out, err) == (130, "", "")


OURS = "application/json"

STRANGERS = {
    "a page": (Said(), 5, "is no Taskyard server: it answers 200 OK"),
    "a login": (Said(status=401), 5, "is no Taskyard server: it answers 401 Unauthorized"),
    "nothing here": (Said(status=404), 5, "is no Taskyard server: it answers 404 Not Found"),
    "not like this": (Said(status=501), 5, "is no Taskyard server: it answers 501 Not Implemented"),
    "elsewhere": (
        Said(status=302, location="https://me:secret@login.example/?back"),
        5,
        "sends to https://login.example: give the URL of the server itself",
    ),
    "round and round": (Said(status=301, location="/"), 5, "answers 301 Moved Permanently"),
    "a proxy": (Said(status=502), 5, "now: 502 Bad Gateway"),
    "another's JSON": (
        Said(kind=OURS, content='{"hello": 1}'), 5, "there is no Taskyard server at"
    ),
    "no JSON": (Said(kind=OURS, content="{"), 5, "there is no Taskyard server at"),
    "another's problem": (
        Said(status=400, kind=PROBLEM, content='{"title": "no"}'), 5, "answers 400 Bad Request"
    ),
    "cut off": (
        Said(kind=OURS, content="{", missing=1), 5, "it hung up before the end of its answer"
    ),
    "a newer one": (
        Said(kind=OURS, content='{"items": 5}', version="9.8"),
        5,
        f"(it is Taskyard 9.8, this is {taskyard.__version__})",
    ),
    "an older one": (
        problem(404, "no_route", "Not Found", version="0.0.9"),
        5,
        f"does not know this command (it is Taskyard 0.0.9, this is {taskyard.__version__})",
    ),
    "an old one": (problem(405, "method_not_allowed", version="0.0.8"), 5, "Taskyard 0.0.8,"),
    "a wrong prefix": (problem(404, "no_route"), 5, "there is no Taskyard server at"),
    "too many": (problem(429, "too_many", "there are 100 streams already"), 5, "100 streams"),
    "a bug": (problem(500, "bug", "the log has it", version="9"), 1, "error: the log has it"),
    "no store": (problem(503, "store_unavailable", "it is gone"), 5, "error: it is gone"),
    "a full one": (problem(507, "store_full", "no room"), 5, "error: no room"),
    "what is new": (problem(418, "tea", "tea only"), 2, "error: tea only"),
    "what is new and bad": (problem(599, "worse", "all is lost"), 1, "error: all is lost"),
    "an echo": (problem(400, "odd", "{authorization}"), 2, "error: Bearer ***"),
}  # fmt: skip


@pytest.mark.parametrize("who", STRANGERS)
def test_whoever_answers(tmp_path: Path, who: str) -> None:
    said, code, complaint = STRANGERS[who]
    with stranger(said) as url:
        for args in (("audit",), ("pause",), ("logs", "x", "--follow")):
            if args[0] != "audit" and said.kind == OURS:
                continue  # the shape of one answer is not that of another
            done = Remote(tmp_path, url, "ty1_made_up").try_to(*args)
            assert complaint in done.complaint
            assert done.code == code
            assert "secret" not in done.complaint


def test_who_speaks_another_language(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(PATIENCE)
        thread = threading.Thread(target=_greet, args=(other,))
        thread.start()
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        done = Remote(tmp_path, url, "ty1_made_up").try_to("stats")
        thread.join(PATIENCE)
    assert done.code == 5
    assert done.complaint == f"error: no answer from {url}: what it says is not HTTP"


def _greet(other: socket.socket) -> None:
    line, _ = other.accept()
    with line:
        line.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        line.recv(10_000)


def test_more_than_a_server_takes(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    file.write_text(json.dumps({"name": "x" * 5_000_000}))
    done = place.remote.try_to("enqueue", "greet", "--args", f"@{file}")
    assert (done.code, done.complaint) == (2, "error: a request has at most 1,048,576 bytes")


def test_a_server_by_another_name(place: Place) -> None:
    url = place.served.url.replace("127.0.0.1", "0.0.0.0")
    done = Remote(place.remote.program.folder, url, place.remote.token).try_to("stats")
    assert (done.code, done.complaint) == (6, "error: this server does not go by that name")


def test_what_is_not_there(place: Place) -> None:
    below = Remote(place.remote.program.folder, f"{place.served.url}/yard", place.remote.token)
    done = below.try_to("stats")
    assert done.code == 5
    assert done.complaint == f"error: there is no Taskyard server at {below.server}"


@pytest.mark.parametrize("command", ["worker", "serve", "copy", "config", "token list"])
def test_what_knows_no_server_says_so(place: Place, command: str) -> None:
    done = place.remote.program.try_to(*command.split(), "--server", place.served.url)
    assert done.code == 2
    assert done.complaint == f"error: taskyard {command} knows no --server: it does its work here"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_tls(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("yardapp.py"), tmp_path / "app.py")
    program = Program(tmp_path)
    subprocess.run(shlex.split(CERTIFICATE), cwd=tmp_path, check=True, capture_output=True)
    served = Served(program, "--tls-cert", "cert.pem", "--tls-key", "key.pem")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    token = (tmp_path / ".taskyard" / "admin-token").read_text().strip()
    remote = Remote(elsewhere, served.url, token)
    trusted = remote.try_to("workers", SSL_CERT_FILE=str(tmp_path / "cert.pem"))
    assert trusted.code == 0, trusted
    unknown = remote.try_to("workers")
    assert unknown.code == 5
    assert "its certificate cannot be trusted" in unknown.complaint
    plain = Remote(elsewhere, served.url.replace("https:", "http:"), token).try_to("workers")
    assert plain.code == 5
    assert "does it speak TLS" in plain.complaint
    served.process.kill()
    served.worker.end()
    served.worker.close()


def test_tls_where_there_is_none(place: Place) -> None:
    url = place.served.url.replace("http:", "https:")
    done = Remote(place.remote.program.folder, url, place.remote.token).try_to("workers")
    assert done.code == 5
    assert "does it speak TLS" in done.complaint
