"""`taskyard logs --server`: the same lines, page by page and as they are said."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.place import Place, Remote
from tests.cli.program import PATIENCE, Program
from tests.server.test_serve import Served


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
def token(place: Place, tmp_path: Path) -> Path:
    return _kept(place.viewer.token, tmp_path)


def _kept(token: str, folder: Path) -> Path:
    file = folder / "token"
    file.write_text(token)
    file.chmod(0o600)
    return file


class Following:
    """`taskyard logs --follow` in the background."""

    def __init__(self, remote: Remote, token: Path, *args: str) -> None:
        options = ("--follow", "--server", remote.server, "--token-file", str(token))
        self._process = remote.program.start("logs", *args, *options)

    def until(self, words: str) -> str:
        """What it says up to a line with these words."""
        assert self._process.stdout is not None
        seen = ""
        for line in self._process.stdout:
            seen += line
            if words in line:
                return seen
        raise AssertionError(f"it ended before it said {words}: {seen}")

    def rest(self) -> str:
        """What it says until its end, which must be a good one."""
        out, err = self._process.communicate(timeout=PATIENCE)
        assert (self._process.returncode, err) == (0, "")
        return out

    def end(self) -> tuple[int, str]:
        """Its code and complaint."""
        _, err = self._process.communicate(timeout=PATIENCE)
        return self._process.returncode, err


def test_they_are_told_the_same(place: Place, pipe: Path) -> None:
    task_id = place.remote("enqueue", "talk", f"pipe={pipe}").strip()
    pipe.write_text("\x1b[31m")
    place.local.wait_for(task_id, "completed")
    for more in ((), ("--attempt", "2"), ("--attempt", "9"), ("--json",), ("--follow",),
                 ("--follow", "--attempt", "1"), ("--follow", "--json")):  # fmt: skip
        assert place.viewer("logs", task_id, *more) == place.local("logs", task_id, *more), more


def test_they_are_told_as_they_are_said(place: Place, pipe: Path, token: Path) -> None:
    task_id = place.remote("enqueue", "talk", f"pipe={pipe}").strip()
    following = Following(place.viewer, token, task_id)
    seen = following.until("attempt_so_far=2")
    assert seen.startswith("attempt 1\n")
    pipe.write_text("x")
    place.local.wait_for(task_id, "completed")
    assert seen + following.rest() == place.local("logs", task_id)


def test_many_lines_come_in_pages(place: Place, token: Path) -> None:
    task_id = place.ended("count", "lines=2500", state="completed")
    shown = place.viewer("logs", task_id)
    assert shown == place.local("logs", task_id)
    assert len(shown.splitlines()) > 1000
    assert Following(place.viewer, token, task_id).rest() == shown


def test_a_task_that_is_not_there(place: Place) -> None:
    for more in ((), ("--follow",)):
        done = place.viewer.try_to("logs", "no/body", *more)
        assert (done.code, done.complaint) == (3, "error: there is no task no/body")


@pytest.fixture
def apart(taskyard: Program) -> Iterator[Program]:
    """With a worker of its own, so that a server can go."""
    taskyard.enqueue("greet", "name=x")
    with taskyard.worker():
        yield taskyard


def test_a_server_that_was_away_goes_on_where_it_was(apart: Program, pipe: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    first = Served(apart, "--no-worker", "--port", port)
    task_id = apart.enqueue("talk", f"pipe={pipe}")
    elsewhere = apart.folder / "elsewhere"
    elsewhere.mkdir()
    admin = (apart.folder / ".taskyard" / "admin-token").read_text().strip()
    remote = Remote(elsewhere, first.url, admin)
    following = Following(remote, _kept(admin, elsewhere), task_id)
    seen = following.until("attempt_so_far=2")
    _end(first)
    second = Served(apart, "--no-worker", "--port", port)
    pipe.write_text("x")
    seen += following.rest()
    apart.wait_for(task_id, "completed")
    assert seen == apart("logs", task_id)
    _end(second)


def test_a_token_that_is_taken_back_ends_it(place: Place, pipe: Path, tmp_path: Path) -> None:
    short = place.local("token", "add", "short").strip()
    task_id = place.remote("enqueue", "talk", f"pipe={pipe}").strip()
    following = Following(place.viewer, _kept(short, tmp_path), task_id)
    following.until("attempt_so_far=2")
    [listed] = [line for line in place.local("token", "list").splitlines() if "  short" in line]
    place.local("token", "revoke", listed.split()[0])
    code, complaint = following.end()
    assert code == 6
    assert complaint == f"error: {place.served.url} does not accept the token of {tmp_path}/token\n"
    pipe.write_text("x")
    place.local.wait_for(task_id, "completed")


def test_as_many_as_a_server_lets_listen(place: Place) -> None:
    host, port = place.served.url.removeprefix("http://").split(":")
    head = f"GET /api/events HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer "
    task_id = place.ended("greet", "name=x", state="completed")
    lines: list[socket.socket] = []
    try:
        for _ in range(100):
            line = socket.create_connection((host, int(port)), PATIENCE)
            lines.append(line)
            line.sendall(f"{head}{place.viewer.token}\r\n\r\n".encode())
            assert line.recv(100).startswith(b"HTTP/1.1 200")
        done = place.viewer.try_to("logs", task_id, "--follow")
        assert (done.code, done.complaint) == (5, "error: there are 100 streams already")
    finally:
        for line in lines:
            line.close()


def _end(served: Served) -> None:
    served.process.kill()
    served.process.wait(PATIENCE)
    served.worker.end()
    served.worker.close()
