"""The examples end well, and say what the spec says of them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.program import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("DOWNLOADS_FOLDER", str(tmp_path))
    yield importlib.import_module("downloads")
    for name in ("downloads", "media_server"):
        del sys.modules[name]


@pytest.mark.spec("lifecycle-8")
@pytest.mark.parametrize(
    ("kind", "timeout", "delays"),
    [
        ("download", 1800, [60, 120, 240]),
        ("scan", 300, [30, 30]),
        ("associate", 120, [10, 10]),
        ("check", 60, [5]),
    ],
)
def test_the_policies_of_the_download_manager(
    downloads: ModuleType, kind: str, timeout: float, delays: list[float]
) -> None:
    declared = downloads.yard.kind(kind).kind
    assert declared.timeout == timeout
    assert [declared.retry.delay(n + 1) for n in range(declared.retry.retries)] == delays


@pytest.mark.spec("lifecycle-1", "lifecycle-14")
async def test_its_lanes_and_its_disk_are_bounded(downloads: ModuleType) -> None:
    async with downloads.yard as yard:
        await downloads.set_up()
        lanes = {lane.name: lane.capacity for lane in await yard.lanes()}
        rules = {rule.pattern: rule.limit for rule in await yard.key_rules()}
    assert lanes == {"requires_cookie": 1, "no_cookie": 2}
    assert rules == {"disk:write": 2}


@pytest.mark.parametrize("name", ["demo", "downloads"])
def test_a_demonstration_ends_well(name: str, tmp_path: Path) -> None:
    """As `make demo` runs it; it looks itself whether all went as it should."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
