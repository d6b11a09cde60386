"""The examples of the guides work, and print what the guides say."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROMISE = "# → "
TOLD = re.compile(f"{PROMISE}(.*)$", re.MULTILINE)
ON_A_LOOP = sorted(
    page.stem
    for page in GUIDES.glob("*.md")
    if PROMISE in page.read_text("utf-8") and page.stem != "sync"
)


class Guide:
    """Its code is one program: the blocks see what those before them have made."""

    def __init__(self, name: str) -> None:
        text = (GUIDES / f"{name}.md").read_text("utf-8")
        self._blocks = BLOCK.findall(text)
        self.promised = [line for block in self._blocks for line in TOLD.findall(block)]
        self.printed: list[str] = []
        self._names: dict[str, Any] = {"__name__": name, "print": self._print}
        self._name = name

    def _print(self, *values: object) -> None:
        self.printed.append(" ".join(str(value) for value in values))

    def run(self) -> None:
        for code in self._compiled():
            code()

    async def run_on_loop(self) -> None:
        for code in self._compiled():
            answer = code()
            if inspect.isawaitable(answer):
                await answer

    def _compiled(self) -> list[Callable[[], Any]]:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        codes = [compile(block, self._name, "exec", flags=flags) for block in self._blocks]
        return [lambda code=code: eval(code, self._names) for code in codes]  # type: ignore[misc]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guides make their yard in the folder they are run in, and what they trace with is theirs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())


@pytest.mark.parametrize("name", ON_A_LOOP)
async def test_a_guide_runs(name: str) -> None:
    guide = Guide(name)
    async with asyncio.timeout(60):
        await guide.run_on_loop()
    missing = [line for line in guide.promised if line not in guide.printed]
    assert not missing, guide.printed


@pytest.mark.spec("engine-35")
def test_the_guide_for_those_who_block_runs_without_a_loop() -> None:
    guide = Guide("sync")
    guide.run()
    assert guide.printed == guide.promised
