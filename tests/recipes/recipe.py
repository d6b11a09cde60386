"""The code of a page of docs/recipes, as files in a folder, and the programs that are run there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.program import PATIENCE, Done, Worker

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
# A block that begins with its name: "# shop/views.py".
FILE = re.compile(r"^```python\n(# (\S+\.py)\n.*?)^```", re.MULTILINE | re.DOTALL)


class Recipe:
    """A page written out; programs run in its folder, with a yard of their own."""

    def __init__(self, name: str, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.url = environ.setdefault("TASKYARD_URL", f"sqlite:///{folder / 'yard.db'}")
        others = {n: v for n, v in os.environ.items() if not n.startswith("TASKYARD_")}
        self._environ = {**others, "PYTHONUNBUFFERED": "1", **environ}
        self.files: list[str] = []
        for code, path in FILE.findall((RECIPES / f"{name}.md").read_text("utf-8")):
            self.write(path, code)

    def write(self, path: str, code: str) -> None:
        file = self.folder / path
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(code, "utf-8")
        self.files.append(path)

    def run(self, *args: str, stdin: str = "") -> Done:
        """`python …` to its end."""
        done = subprocess.run(
            [sys.executable, *args],
            cwd=self.folder,
            env=self._environ,
            input=stdin.encode(),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *args: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *args],
            cwd=self.folder,
            env={**self._environ, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def worker(self, app: str) -> Worker:
        """`taskyard worker`, ready to be entered."""
        return Worker(self.start("-m", "taskyard", "worker", app))
