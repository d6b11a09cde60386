"""A wrong argument is an error in the editor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """
from taskyard import Context, Retry, Yard

yard = Yard("sqlite:///yard.db")

@yard.task(lane="downloads", timeout=1800, retry=Retry.exponential(3, base=60, cap=300))
async def download(ctx: Context, url: str, quality: str = "best") -> str:
    return url

@yard.task()
def scan(folder: str) -> int:
    return 1

async def main() -> None:
    handle = await download.options(key="sub:1", priority=2).enqueue(url="https://x")
    text: str = await handle.result(timeout=60)
    number: int = await (await scan.enqueue("f")).result()
"""

BAD = {
    "await download.enqueue(url=5)": "arg-type",
    "await download.enqueue()": "call-arg",
    'await download.enqueue(url="x", size=1)': "call-arg",
    'n: int = await (await download.enqueue("x")).result()': "assignment",
    "await scan.enqueue(1)": "arg-type",
}

CACHE = Path(__file__).parents[2] / ".mypy_cache" / "users"  # of all who ask: it is read for long


def mypy(folder: Path, source: str) -> str:
    file = folder / "user.py"
    file.write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={CACHE}", file],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    return done.stdout


@pytest.mark.spec("engine-32")
def test_the_example_is_typed_end_to_end(tmp_path: Path) -> None:
    assert "Success" in mypy(tmp_path, GOOD)


@pytest.mark.spec("engine-32")
def test_wrong_uses_are_errors_in_the_editor(tmp_path: Path) -> None:
    source = GOOD + "".join(f"    {line}\n" for line in BAD)
    found = mypy(tmp_path, source)
    first = len(GOOD.splitlines()) + 1
    for number, (line, code) in enumerate(BAD.items(), first):
        assert any(
            f"user.py:{number}: " in shown and f"[{code}]" in shown for shown in found.splitlines()
        ), f"{line}\n{found}"
