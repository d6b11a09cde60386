"""Fixtures for those who test with pytest; found by itself where Taskyard is installed.

Nothing of Taskyard is imported before a test asks for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from taskyard.trial import SyncTrial, Trial
    from taskyard.yard import Yard

NAME = "taskyard_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(NAME, "The yard that the fixtures test: module:attribute.", default="")


@pytest.fixture
def taskyard_yard(request: pytest.FixtureRequest) -> Yard:
    """The yard under test; override this fixture, or set `taskyard_app` in pytest's settings."""
    from taskyard.cli.application import load_yard  # noqa: PLC0415 - not before it is needed
    from taskyard.domain.errors import ConfigurationError  # noqa: PLC0415 - not before it is needed

    app = str(request.config.getini(NAME))
    if not app:
        raise pytest.UsageError(
            f"which yard? set {NAME} = module:attribute in pytest's settings, "
            "or write a fixture taskyard_yard that returns it"
        )
    try:
        return load_yard(app)
    except ConfigurationError as error:
        raise pytest.UsageError(f"{NAME}: {error}") from None


@pytest.fixture
def trial(taskyard_yard: Yard) -> Iterator[SyncTrial]:
    """For tests that block: the yard in memory, with time that stands still."""
    with taskyard_yard.testing() as begun:
        yield begun


@pytest.fixture
def trial_on_loop(
    taskyard_yard: Yard,
) -> Callable[[], contextlib.AbstractAsyncContextManager[Trial]]:
    """For tests that await: `async with trial_on_loop() as trial:`."""

    @contextlib.asynccontextmanager
    async def begin() -> AsyncIterator[Trial]:
        async with taskyard_yard.testing() as begun:
            yield begun

    return begin
