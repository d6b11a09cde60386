"""Messages that are sent before the last one is answered come to the server in their order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
from redis import exceptions as redis_errors

from taskyard import State, Yard
from taskyard.store.redis.address import parse
from taskyard.store.redis.lines import Lines, arguments
from taskyard.store.redis.link import lines_to
from tests.engine.waits import found, working
from tests.servers.redis import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
async def lines(server: RedisServer) -> AsyncIterator[Lines]:
    lines = lines_to(parse(server.url))
    yield lines
    await lines.hang_up()


def said(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + arguments([word.encode() for word in words])


async def connections(lines: Lines) -> int:
    clients: bytes = await lines.say(said("CLIENT", "LIST"))
    return clients.count(b"cmd=")


@pytest.mark.spec("engine-31")
async def test_messages_are_answered_in_the_order_they_were_sent(lines: Lines) -> None:
    answers = await asyncio.gather(
        *(lines.say_in_order(said("RPUSH", "{order}", str(n))) for n in range(50))
    )

    assert answers == list(range(1, 51))
    kept = await lines.say(said("LRANGE", "{order}", "0", "-1"))
    assert kept == [b"%d" % n for n in range(50)]
    assert await connections(lines) == 1  # it serves others when its row is empty


async def test_what_the_server_refuses_leaves_the_others_their_answers(lines: Lines) -> None:
    words = (said("ECHO", "a"), said("NO-SUCH"), said("ECHO", "b"))
    first, refused, last = await asyncio.gather(
        *map(lines.say_in_order, words), return_exceptions=True
    )

    assert (first, last) == (b"a", b"b")
    assert isinstance(refused, redis_errors.ResponseError)


async def test_nobody_gets_the_answer_of_one_who_has_gone(lines: Lines) -> None:
    waits = asyncio.create_task(lines.say_in_order(said("BLPOP", "{empty}", "5")))
    behind = asyncio.create_task(lines.say_in_order(said("ECHO", "behind")))
    await asyncio.sleep(0.05)
    waits.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waits
    with pytest.raises((redis_errors.ConnectionError, OSError)):
        await behind
    assert await lines.say_in_order(said("ECHO", "new")) == b"new"


async def test_a_line_that_cannot_be_had_refuses_all_who_wait_for_it() -> None:
    lines = lines_to(parse("redis://127.0.0.1:1"))

    refused = await asyncio.gather(
        *(lines.say_in_order(said("PING")) for _ in range(3)), return_exceptions=True
    )

    assert [isinstance(each, redis_errors.ConnectionError | OSError) for each in refused] == [
        True
    ] * 3


@pytest.mark.spec("engine-10", "engine-31")
async def test_a_flood_is_claimed_and_begun_in_order(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    async with Yard(f"{server.url}?namespace=flood") as yard:
        begun, unanswered = 0, Counter[int]()
        turn = yard.store.turn

        async def watched(*args: object) -> object:
            nonlocal begun
            begun += 1
            unanswered[begun] += 1
            try:
                return await turn(*args)  # type: ignore[arg-type]
            finally:
                begun -= 1

        monkeypatch.setattr(yard.store, "turn", watched)

        @yard.task()
        async def note(n: int) -> None:
            ran.append(n)

        await yard.enqueue(*(note.new(n) for n in range(6_000)))

        async def all_completed() -> bool | None:
            return (await yard.counts())[State.COMPLETED] == 6_000 or None

        async with working(yard):
            await found(yard, all_completed)

    assert ran == list(range(6_000))
    assert unanswered[2] > 0
    assert max(unanswered) == 2
