"""Of the run as a whole: in which order it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

WAITING = Path(__file__).with_name("crash")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that wait for most of their time are spread among those that compute: all at once they
    would leave the machine idle. The last are such as end soon.
    """
    files = list(dict.fromkeys(item.path for item in items))
    waiting = [file for file in files if file.is_relative_to(WAITING)]
    others = [file for file in files if not file.is_relative_to(WAITING)]
    place = {file: float(at) for at, file in enumerate(others)}
    apart = 0.8 * len(others) / max(1, len(waiting))
    place |= {file: at * apart - 0.5 for at, file in enumerate(waiting)}
    items.sort(key=lambda item: place[item.path])
