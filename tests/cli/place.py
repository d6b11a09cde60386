"""An application with a server, and those who ask it from elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cli.program import Done, Program
from tests.server.test_serve import Served


class Remote:
    """The program in a folder without an application, and with a store that is not there."""

    def __init__(self, folder: Path, server: str, token: str) -> None:
        self.program = Program(folder)
        self.server = server
        self.token = token

    def try_to(self, *args: str, **env: str) -> Done:
        said = {"TASKYARD_TOKEN": self.token, **env}
        done = self.program.try_to(*_with(args, "--server", self.server), **said)
        assert not self.token or self.token not in done.out + done.err
        assert not self.program.file.exists()
        return done

    def __call__(self, *args: str) -> str:
        done = self.try_to(*args)
        assert (done.code, done.err) == (0, ""), done
        return done.out

    def json(self, *args: str) -> Any:
        return json.loads(self(*args, "--json"))


def _with(args: Sequence[str], *options: str) -> list[str]:
    """Behind the name of the command and before its arguments, where one may begin with a dash."""
    names = 2 if args[0] in ("tasks", "lanes", "keys", "cron") else 1
    return [*args[:names], *options, *args[names:]]


class Place:
    """An application with a server, and two who ask it."""

    def __init__(self, folder: Path) -> None:
        beside, elsewhere = folder / "app", folder / "elsewhere"
        beside.mkdir()
        elsewhere.mkdir()
        shutil.copy(Path(__file__).with_name("yardapp.py"), beside / "app.py")
        self.local = Program(beside)
        self.served = Served(self.local)
        token = (beside / ".taskyard" / "admin-token").read_text().strip()
        viewer = self.local("token", "add", "looks").strip()
        self.remote = Remote(elsewhere, self.served.url, token)
        self.viewer = Remote(elsewhere, self.served.url, viewer)

    def close(self) -> None:
        self.served.process.kill()
        self.served.worker.end()
        self.served.worker.close()

    def ended(self, kind: str, *args: str, state: str) -> str:
        task_id = self.remote("enqueue", kind, *args).strip()
        self.local.wait_for(task_id, state)
        return task_id
