"""What the editor knows of options, results, resources, hooks and `.sync`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.test_typing import mypy

GOOD = """
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from taskyard import Context, Rate, SyncHandle, Yard, chain, gather

yard = Yard("sqlite:///yard.db")

class Pool:
    def size(self) -> int:
        return 1

@yard.resource
async def http() -> AsyncIterator[Pool]:
    yield Pool()

@yard.resource
def disk() -> Iterator[bytes]:
    yield b""

@yard.resource
@asynccontextmanager
async def ready() -> AsyncIterator[float]:
    yield 1.0

@yard.cron("0 3 * * *", timezone="Europe/Berlin", catch_up="skip")
@yard.task(version=2, aliases=["fetch"])
async def download(ctx: Context, url: str = "") -> str:
    size: int = (await ctx.resource(http)).size()
    seconds: float = await ctx.resource(ready)
    return url

@download.migrate(from_version=1)
def up(old: dict[str, Any]) -> dict[str, Any]:
    return old

@yard.task()
def total(ctx: Context) -> int:
    texts: list[str] = ctx.results_blocking(download)
    data: bytes = ctx.resource_blocking(disk)
    return len(texts)

@yard.before
async def begins(ctx: Context) -> None: ...

@total.after
def returned(ctx: Context, result: int) -> None: ...

@yard.error
def failed(ctx: Context, error: BaseException) -> None: ...

def script() -> None:
    handle: SyncHandle[str] = download.options(dedup="a", on_duplicate="replace").sync.enqueue("x")
    text: str = handle.result(60)
    yard.sync.set_lane("calls", capacity=4, rate=Rate(10), order="fair")
    yard.sync.cancel_all(key="sub:7", actor="system")

async def main() -> None:
    flow = chain(gather(download.new("a"), download.new(url="b")), total.new())
    answers = await yard.enqueue(*flow)
    number: int = await total.handle(answers[-1]).result()
    after = download.options(depends_on=[await download.enqueue("x"), flow[0], "id"])
    await yard.set_lane("calls", max_depth=None)
"""

BAD = {
    "download.sync.enqueue(5)": "arg-type",
    "number = download.sync.enqueue('x').result() + 1": "operator",
    "download.options(on_duplicate='drop')": "arg-type",
    "download.options(if_key_held='fail')": "arg-type",
    "download.options(depends_on=[5])": "list-item",
    "chain(download)": "arg-type",
    "yard.sync.get(5)": "arg-type",
    "yard.sync.set_lane('a', order='random')": "arg-type",
    "download.before(lambda: None)": "type-var",
    "yard.cron('0 3 * * *', catch_up='some')(download)": "arg-type",
    "yard.resource(len)": "arg-type",
    "await yard.set_lane('a', capacity='4')": "arg-type",
}


@pytest.mark.spec("engine-32")
def test_right_uses_are_typed_end_to_end(tmp_path: Path) -> None:
    assert "Success" in mypy(tmp_path, GOOD)


@pytest.mark.spec("engine-32", "engine-35")
def test_wrong_uses_are_errors_in_the_editor(tmp_path: Path) -> None:
    found = mypy(tmp_path, GOOD + "".join(f"    {line}\n" for line in BAD)).splitlines()
    for number, (line, code) in enumerate(BAD.items(), len(GOOD.splitlines()) + 1):
        shown = [one for one in found if f"user.py:{number}: error" in one]
        assert any(f"[{code}]" in one for one in shown), (line, shown)
