from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from taskyard.domain.task import new_task_id
from tests.crash.crew import Crew
from tests.crash.scene import Scene
from tests.servers.postgres import PostgresServer


class Stage(Protocol):
    def __call__(self, url: str) -> AbstractAsyncContextManager[Scene]:
        """A scene on the store that this URL names."""


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


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    @asynccontextmanager
    async def stage(url: str) -> AsyncIterator[Scene]:
        made = Scene(Crew(tmp_path, url=url, log=True))
        try:
            await made.yard.open()
            yield made
        finally:
            made.crew.stop()
            await made.yard.close()

    return stage


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """One server for the tests of a file, which may stop it and start it again."""
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """An empty namespace of it."""
    postgres.start()
    return f"{postgres.url}?namespace=test_{new_task_id()}"
