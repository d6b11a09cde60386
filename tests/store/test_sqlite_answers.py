"""Answers find their way back to every loop, also to one that cannot be woken the short way."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from pathlib import Path

import pytest

from taskyard.store.sqlite import answers
from taskyard.store.sqlite.store import SqliteStore
from tests.conformance.verbs import new


async def saved(path: Path, *, at_once: int = 20) -> int:
    store = SqliteStore(str(path))
    try:
        calls = [store.enqueue([new(id=f"task-{n}")]) for n in range(at_once)]
        return len([await call for call in asyncio.as_completed(calls)])
    finally:
        await store.close()


def open_files() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_every_loop_gets_its_answers(tmp_path: Path) -> None:
    before = open_files()
    for n in range(5):
        assert asyncio.run(saved(tmp_path / f"{n}.db")) == 20
    assert open_files() <= before + 1  # a descriptor goes with its loop


async def test_stores_of_one_loop_share_a_letterbox(tmp_path: Path) -> None:
    box = answers.letterbox_of(asyncio.get_running_loop())
    await saved(tmp_path / "a.db")
    await saved(tmp_path / "b.db")
    assert answers.letterbox_of(asyncio.get_running_loop()) is box


def test_without_descriptors_a_loop_is_woken_by_its_own_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError("too many open files")

    monkeypatch.setattr(os, "eventfd", refuse)
    assert asyncio.run(saved(tmp_path / "yard.db")) == 20


def test_a_loop_that_watches_no_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    before = open_files()
    loop = asyncio.new_event_loop()
    monkeypatch.setattr(loop, "add_reader", refuse)
    try:
        assert loop.run_until_complete(saved(tmp_path / "yard.db")) == 20
        assert answers.letterbox_of(loop)._bell is None
    finally:
        loop.close()
    assert open_files() <= before + 1


@pytest.mark.parametrize("has_bells", [True, False])
def test_a_loop_that_has_gone_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_bells: bool
) -> None:
    if not has_bells:
        monkeypatch.delattr(os, "eventfd")
    store = SqliteStore(str(tmp_path / "yard.db"))

    async def ask_and_leave() -> None:
        await store.open()
        asyncio.ensure_future(store.enqueue([new(id="left behind")]))  # noqa: RUF006
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(ask_and_leave())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.close()

    async def ask() -> object:
        try:
            await store.enqueue([new(id="another")])
            return await store.get("left behind")
        finally:
            await store.close()

    assert asyncio.run(ask()) is not None


def test_a_loop_that_is_closed_before_its_answer_is_not_kept(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "yard.db"))

    async def ask_and_leave() -> None:
        await store.open()
        asyncio.ensure_future(store._write(lambda _: time.sleep(0.05)))  # noqa: RUF006
        await asyncio.sleep(0.01)

    before = open_files()
    for _ in range(5):
        asyncio.run(ask_and_leave())
    asyncio.run(store.close())  # the writer has answered them all
    assert open_files() <= before + 2  # and not one for each loop
