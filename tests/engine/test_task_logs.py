"""What bodies say is kept with their attempt, wherever they run, and holds nobody up."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from taskyard import Context, Handle, LogLine, NotFound, Retry, State, Yard
from taskyard.domain.errors import InvalidOption, StoreFull, StoreUnavailable
from taskyard.domain.logs import MAX_LINES, Level, LogPage
from taskyard.engine import logbook
from taskyard.engine.redact import HIDDEN
from tests.engine.isolated import isolated_yard
from tests.engine.waits import ended, found, working


async def said(handle: Handle[Any]) -> list[tuple[str, str]]:
    return [(line.level.value, line.text) for line in await handle.logs()]


async def has_said(yard: Yard, handle: Handle[Any], text: str) -> list[LogLine]:
    """What the task has said, once this is among it; the task need not have ended."""

    async def look() -> list[LogLine] | None:
        lines = await handle.logs()
        return lines if any(line.text == text for line in lines) else None

    return await found(yard, look)


async def test_lines_are_kept_with_their_attempt(yard: Yard) -> None:
    @yard.task(retry=Retry.fixed(1, delay=0.0))
    async def work(ctx: Context) -> None:
        ctx.log.info("begun", page=3, name="two words", empty="")
        if ctx.attempt == 1:
            ctx.log.bind(step="read").warning("not %s of %d", "enough", 7)
            raise LookupError("nothing there")
        ctx.log.error("as last time")

    async with working(yard):
        handle = await work.enqueue()
        await handle.result(20)
        # The end of the attempt is stored after them: whoever sees it sees all lines.
        lines = await handle.logs()

    assert [(line.attempt, line.number, line.level, line.text) for line in lines] == [
        (1, 1, Level.INFO, "begun page=3 name='two words' empty=''"),
        (1, 2, Level.WARNING, "not enough of 7 step=read"),
        (2, 1, Level.INFO, "begun page=3 name='two words' empty=''"),
        (2, 2, Level.ERROR, "as last time"),
    ]
    task = await handle.task()
    assert task.started_at is not None
    assert task.ended_at is not None
    assert task.created_at <= lines[0].at <= lines[-1].at <= task.ended_at
    assert await yard.logs(handle.id, after=(1, 1)) == lines[1:]
    with pytest.raises(NotFound):
        await yard.logs("nobody")


async def test_the_log_of_the_program_is_as_it_was(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "taskyard")

    @yard.task()
    async def work(ctx: Context) -> None:
        ctx.log.info("kept, and not logged", token="t-1")
        ctx.log.warning("both", figure=7)
        ctx.log.debug("neither")

    async with working(yard):
        handle = await work.enqueue()
        await handle.result(20)

    assert await said(handle) == [
        ("info", f"kept, and not logged token={HIDDEN}"),
        ("warning", "both figure=7"),
    ]
    assert [record.getMessage() for record in caplog.records] == [
        f"event='both' task='{handle.id}' kind='work' attempt=1 figure=7"
    ]


@pytest.mark.parametrize(
    ("keep_logs", "kept"),
    [
        ("off", []),
        ("error", ["error", "critical"]),
        ("debug", ["debug", "info", "warning", "error", "critical"]),
    ],
)
async def test_the_least_level_can_be_chosen(yard: Yard, keep_logs: str, kept: list[str]) -> None:
    @yard.task()
    async def work(ctx: Context) -> None:
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            ctx.log.log(level, "said")
        ctx.log.fatal("said")

    async with working(yard, keep_logs=keep_logs):
        handle = await work.enqueue()
        await handle.result(20)

    assert [level for level, _ in await said(handle)] == kept


async def test_an_unknown_level_is_refused(yard: Yard) -> None:
    with pytest.raises(InvalidOption, match="keep_logs must be one of off, debug, info"):
        yard.worker(keep_logs="loud")  # type: ignore[arg-type]


@pytest.mark.spec("lifecycle-17")
async def test_secrets_are_not_kept(yard: Yard) -> None:
    @yard.task()
    async def work(ctx: Context) -> None:
        ctx.log.info(
            "from https://ann:hunter2@example.com/?token=hunter2&page=2",
            password="hunter2",
            headers={"Authorization": "hunter2", "accept": "all"},
        )
        ctx.log.info('sent {"api_key": "hunter2", "page": 2} as Bearer hunter2hunter2')
        ctx.log.info("page=2 secret = hunter2, url=https://x.example/?session=hunter2")
        try:
            raise ValueError("password='hunter2' is wrong")
        except ValueError:
            ctx.log.exception("refused")

    async with working(yard):
        handle = await work.enqueue()
        await handle.result(20)

    lines = await said(handle)
    assert "hunter2" not in str(lines)
    assert lines[0][1] == (
        f"from https://ann:{HIDDEN}@example.com/?token={HIDDEN}&page=2 password={HIDDEN} "
        f"headers={{'Authorization': {HIDDEN}, 'accept': 'all'}}"
    )
    assert lines[1][1] == f'sent {{"api_key": {HIDDEN}, "page": 2}} as Bearer {HIDDEN}'
    assert lines[2][1] == f"page=2 secret = {HIDDEN}, url=https://x.example/?session={HIDDEN}"
    assert lines[3][0] == "error"
    assert lines[3][1].startswith("refused\nTraceback (most recent call last):\n")
    assert lines[3][1].endswith(f"ValueError: password={HIDDEN} is wrong")


class Stubborn:
    def __repr__(self) -> str:
        raise RuntimeError("not now")


async def test_no_body_fails_because_of_what_it_says(yard: Yard) -> None:
    @yard.task(retry=Retry.never())
    async def work(ctx: Context) -> int:
        ctx.log.debug("%d", "no number")
        ctx.log.info("said", what=Stubborn())
        ctx.log.info("file \udcff \0", at={1: 2}, long="x" * 20_000)
        return 7

    logging.getLogger("taskyard.worker").setLevel(logging.CRITICAL)
    try:
        async with working(yard, keep_logs="debug"):
            handle = await work.enqueue()
            assert await handle.result(20) == 7
    finally:
        logging.getLogger("taskyard.worker").setLevel(logging.NOTSET)

    lines = [text for _, text in await said(handle)]
    assert lines[:2] == [
        "(a line that cannot be shown: TypeError)",
        "(a line that cannot be shown: RuntimeError)",
    ]
    assert lines[2].startswith("file \\udcff \\x00 at={1: 2} long=xxx")
    assert "left out" in lines[2]


# --- live ---


async def test_lines_are_seen_while_the_body_runs(yard: Yard) -> None:
    go_on = asyncio.Event()

    @yard.task()
    async def slow(ctx: Context) -> None:
        ctx.log.info("first")
        await go_on.wait()
        ctx.log.info("last")

    async with working(yard):
        handle = await slow.enqueue()
        following = asyncio.create_task(_followed(yard, handle.id))
        assert [line.text for line in await has_said(yard, handle, "first")] == ["first"]
        assert await handle.status() is State.RUNNING
        go_on.set()
        await handle.result(20)
        async with asyncio.timeout(20):
            assert await following == ["first", "last"]

    assert await _followed(yard, handle.id) == ["first", "last"]
    with pytest.raises(NotFound):
        await _followed(yard, "nobody")


async def _followed(yard: Yard, task_id: str) -> list[str]:
    return [line.text async for line in yard.follow_logs(task_id)]


async def test_a_body_in_a_thread_is_heard(yard: Yard) -> None:
    go_on = threading.Event()

    @yard.task()
    def plain(ctx: Context) -> None:
        ctx.log.info("first")
        others = [threading.Thread(target=ctx.log.info, args=("beside",)) for _ in range(5)]
        for other in others:
            other.start()
        for other in others:
            other.join()
        go_on.wait(20)
        ctx.log.info("last")

    async with working(yard):
        handle = await plain.enqueue()
        lines = await has_said(yard, handle, "first")
        assert all(line.attempt == 1 for line in lines)
        go_on.set()
        await handle.result(20)

    assert [text for _, text in await said(handle)] == ["first", *["beside"] * 5, "last"]


async def test_an_isolated_body_is_heard(tmp_path: Path) -> None:
    async with isolated_yard(f"sqlite:///{tmp_path / 'yard.db'}") as yard, working(yard):
        plain = await yard.kind("talks").enqueue(str(tmp_path), "plainly")
        await has_said(yard, plain, "first who=plainly")
        (tmp_path / "go on").touch()
        await plain.result(30)
        on_loop = await yard.kind("talks_async").enqueue()
        await on_loop.result(30)
        dying = await yard.kind("talks_and_dies").enqueue()
        await ended(dying)

        assert await said(plain) == [
            ("info", "first who=plainly"),
            ("warning", f"last token={HIDDEN}"),
        ]
        assert await said(on_loop) == [("info", "begun"), ("info", "from a thread")]
        assert await said(dying) == [("error", "the last words")]
        forking = await yard.kind("forks_and_talks").enqueue()
        await forking.result(30)
        assert await said(forking) == [("info", "of the body")]


async def test_a_body_that_says_too_much_keeps_the_end(yard: Yard) -> None:
    @yard.task()
    async def work(ctx: Context) -> None:
        for number in range(5 * MAX_LINES):
            ctx.log.info(str(number))

    async with working(yard):
        handle = await work.enqueue()
        await handle.result(20)

    gap, *lines = await handle.logs(limit=2 * MAX_LINES)
    assert gap.text.startswith(f"({4 * MAX_LINES:,} lines were dropped here")
    assert [line.text for line in lines] == [str(n) for n in range(4 * MAX_LINES, 5 * MAX_LINES)]


# --- the store ---


@asynccontextmanager
async def calls(
    yard: Yard, answer: Callable[[Sequence[LogPage]], None] = lambda _: None
) -> AsyncIterator[list[int]]:
    """How many attempts each call to the store tells of; `answer` may refuse it."""
    store, told = yard.store, list[int]()
    append = store.append_logs

    async def counted(pages: Sequence[LogPage]) -> list[bool]:
        told.append(len(pages))
        answer(pages)
        return await append(pages)

    store.append_logs = counted  # type: ignore[method-assign]
    try:
        yield told
    finally:
        store.append_logs = append  # type: ignore[method-assign]


async def test_who_says_nothing_costs_nothing(yard: Yard) -> None:
    @yard.task()
    async def silent(ctx: Context) -> None:
        ctx.log.debug("not kept")

    async with calls(yard) as told, working(yard):
        handles = [await silent.enqueue() for _ in range(50)]
        for handle in handles:
            await handle.result(20)
    assert told == []


async def test_lines_of_many_bodies_go_together(yard: Yard) -> None:
    @yard.task()
    async def talks(ctx: Context) -> None:
        for number in range(20):
            ctx.log.info(str(number))

    handles = [await talks.enqueue() for _ in range(50)]
    async with calls(yard) as told, working(yard):
        for handle in handles:
            await handle.result(20)
    assert sum(told) == 50
    assert len(told) < 25
    for handle in handles:
        assert [text for _, text in await said(handle)] == [str(n) for n in range(20)]


async def test_a_store_that_takes_no_lines_holds_nobody_up(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logbook, "EVERY", 0.01)
    monkeypatch.setattr(logbook, "AGAIN", 0.01)

    @yard.task()
    async def talks(ctx: Context) -> None:
        ctx.log.info("in vain")

    def refuse(_: Sequence[LogPage]) -> None:
        raise StoreFull("no room")

    async with calls(yard, refuse) as told, working(yard) as worker:
        for _ in range(5):
            await (await talks.enqueue()).result(20)
        handle = await talks.enqueue()
        await handle.result(20)
    assert worker._logs.is_empty  # and what could not be stored is not kept for ever
    assert told
    assert await said(handle) == []


async def test_what_the_store_did_not_take_is_tried_again(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logbook, "EVERY", 0.01)
    monkeypatch.setattr(logbook, "AGAIN", 0.01)
    go_on = asyncio.Event()
    refused = 0

    @yard.task()
    async def talks(ctx: Context) -> None:
        ctx.log.info("first")
        await go_on.wait()

    def twice_refused(_: Sequence[LogPage]) -> None:
        nonlocal refused
        refused += 1
        if refused <= 2:
            raise StoreUnavailable("away")

    async with calls(yard, twice_refused), working(yard):
        handle = await talks.enqueue()
        await has_said(yard, handle, "first")
        go_on.set()
        await handle.result(20)
    assert refused == 3


async def test_what_no_store_takes_is_missing_and_nothing_else(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logbook, "EVERY", 0.01)
    heard, refused = asyncio.Event(), asyncio.Event()

    @yard.task()
    async def talks(ctx: Context) -> None:
        ctx.log.info("first")
        await heard.wait()
        ctx.log.info("strange")
        await refused.wait()
        ctx.log.info("last")

    def refuse(pages: Sequence[LogPage]) -> None:
        if any(line.text == "strange" for page in pages for line in page.lines):
            refused.set()
            raise ValueError("what is this?")

    async with calls(yard, refuse), working(yard):
        handle = await talks.enqueue()
        await has_said(yard, handle, "first")
        heard.set()
        await handle.result(20)
    first, gap, last = [text for _, text in await said(handle)]
    assert (first, last) == ("first", "last")
    assert gap.startswith("(1 line was dropped")


async def test_what_is_said_by_a_lost_attempt_is_not_kept(yard: Yard) -> None:
    go_on = asyncio.Event()
    begun = asyncio.Event()

    @yard.task()
    async def work(ctx: Context) -> None:
        begun.set()
        await go_on.wait()
        ctx.log.info("too late")

    async with working(yard) as worker:
        handle = await work.enqueue()
        await begun.wait()
        await yard.store.rescue([worker.lease], ended=False)
        go_on.set()
        await found(yard, lambda: _when(not worker.hand.running))
        await worker._logs.flush()
        assert all(line.attempt > 1 for line in await handle.logs())
    assert worker._logs.is_empty


async def _when(done: bool) -> bool | None:
    return done or None
