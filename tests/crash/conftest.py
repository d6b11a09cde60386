from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.crash.crew import Crew
from tests.crash.scene import Scene


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    made = Crew(tmp_path, log=True)
    yield made
    made.stop()


@pytest.fixture
async def scene(crew: Crew) -> AsyncIterator[Scene]:
    made = Scene(crew)
    await made.yard.open()
    yield made
    await made.yard.close()
