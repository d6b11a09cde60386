from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard import Yard


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with Yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard:
        yield yard
