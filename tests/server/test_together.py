"""Answers leave in one piece, and long ones do not pile up."""

from __future__ import annotations

import asyncio

import pytest

from taskyard.server.together import MOST_HELD, Together


class Inner(asyncio.Transport):
    """Writes down what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.said.append(bytes(data))

    def close(self) -> None:
        self.said.append(b"closed")

    def abort(self) -> None:
        self.said.append(b"aborted")


@pytest.fixture
def inner() -> Inner:
    return Inner()


async def test_what_is_written_in_one_turn_goes_out_at_its_end(inner: Inner) -> None:
    line = Together(inner, asyncio.get_running_loop())
    for piece in (b"head", b"", b"body"):
        line.write(piece)
    assert inner.said == []
    await asyncio.sleep(0)
    assert inner.said == [b"headbody"]
    line.write(b"next")
    await asyncio.sleep(0)
    assert inner.said == [b"headbody", b"next"]


async def test_much_is_not_held(inner: Inner) -> None:
    line = Together(inner, asyncio.get_running_loop())
    line.write(b"head")
    line.write(b"x" * MOST_HELD)
    assert inner.said == [b"head" + b"x" * MOST_HELD]
    line.write(b"rest")
    await asyncio.sleep(0)
    assert inner.said[1:] == [b"rest"]


async def test_what_was_written_before_the_end_is_sent(inner: Inner) -> None:
    line = Together(inner, asyncio.get_running_loop())
    line.write(b"last")
    line.close()
    assert inner.said == [b"last", b"closed"]
    line.write(b"lost")
    line.abort()
    await asyncio.sleep(0)
    assert inner.said[2:] == [b"aborted"]
