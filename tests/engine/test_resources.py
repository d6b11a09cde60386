"""Things that are made once and shared."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from taskyard.domain.errors import InvalidHandler
from taskyard.engine.resources import Resource, Resources

pytestmark = pytest.mark.spec("engine-33")


class Diary:
    """Two resources that tell what becomes of them, and in which task or thread."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.places: list[object] = []
        self.pool = Resource(self._pool())
        self.files = Resource(self._files())

    def _pool(self) -> Callable[[], AsyncIterator[str]]:
        async def pool() -> AsyncIterator[str]:
            self.lines.append("open pool")
            self.places.append(asyncio.current_task())
            await asyncio.sleep(0)
            yield "pool"
            self.lines.append("close pool")
            self.places.append(asyncio.current_task())

        return pool

    def _files(self) -> Callable[[], Iterator[str]]:
        def files() -> Iterator[str]:
            self.lines.append("open files")
            self.places.append(threading.current_thread())
            yield "files"
            self.lines.append("close files")
            self.places.append(threading.current_thread())

        return files


@pytest.mark.parametrize("inline", [False, True])
async def test_made_once_on_first_use_and_closed_in_reverse(inline: bool) -> None:
    diary, resources = Diary(), Resources(inline=inline)
    assert diary.lines == []
    things = await asyncio.gather(*(resources.get(diary.pool) for _ in range(5)))
    assert things == ["pool"] * 5
    assert await resources.get(diary.files) == "files"
    assert await resources.get(diary.pool) == "pool"
    await resources.close()
    await resources.close()

    assert diary.lines == ["open pool", "open files", "close files", "close pool"]
    opened, _, _, closed = diary.places
    assert opened is closed, "a task group or a cancel scope must be left where it was entered"
    assert diary.places[1] is diary.places[2]
    assert (diary.places[1] is threading.current_thread()) == inline


async def test_who_gives_up_does_not_spoil_it_for_the_others() -> None:
    may_open, made = asyncio.Event(), 0

    async def slow() -> AsyncIterator[int]:
        nonlocal made
        made += 1
        await may_open.wait()
        yield made

    resources, resource = Resources(), Resource(slow)
    first = asyncio.create_task(resources.get(resource))
    second = asyncio.create_task(resources.get(resource))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    may_open.set()
    assert (await second, made) == (1, 1)
    await resources.close()


@pytest.mark.parametrize("inline", [False, True])
async def test_one_that_cannot_be_made_is_tried_again(inline: bool) -> None:
    tries = 0

    def moody() -> Iterator[int]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError("not now")
        yield tries

    resources, resource = Resources(inline=inline), Resource(moody)
    with pytest.raises(ConnectionError, match="not now"):
        await resources.get(resource)
    assert await resources.get(resource) == 2
    await resources.close()


async def test_one_that_fails_to_close_keeps_no_other_open() -> None:
    closed = []

    @asynccontextmanager
    async def sound() -> AsyncIterator[None]:
        yield
        closed.append("sound")

    async def broken() -> AsyncIterator[None]:
        yield
        raise OSError("gone")

    resources = Resources()
    await resources.get(Resource(sound))
    await resources.get(Resource(broken))
    await resources.close()

    assert closed == ["sound"]
    with pytest.raises(RuntimeError, match="stopping"):
        await resources.get(Resource(sound))


async def test_closing_does_not_wait_for_what_is_still_being_made() -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[None]:
        begun.set()
        await asyncio.Event().wait()
        yield

    resources = Resources()
    asking = asyncio.create_task(resources.get(Resource(endless)))
    await begun.wait()
    await resources.close()
    with pytest.raises(RuntimeError):
        await asking


def test_what_cannot_be_a_resource() -> None:
    def with_arguments(url: str) -> Iterator[None]:
        yield

    def returns() -> int:
        return 5

    with pytest.raises(InvalidHandler, match="no arguments"):
        Resource(with_arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidHandler, match="must yield"):
        Resource(returns).make()  # type: ignore[arg-type]
