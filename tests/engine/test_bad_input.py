"""Bad input gets a clear error, and nothing is stored."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from taskyard import Context, Retry, TaskKind, Yard
from taskyard.domain.errors import (
    ConfigurationError,
    InvalidArguments,
    InvalidHandler,
    InvalidOption,
    NotFound,
    PayloadTooLarge,
    StoreCorrupt,
    StoreUnavailable,
    TaskyardError,
    UnknownKind,
)


@pytest.fixture
async def download(yard: Yard) -> AsyncIterator[TaskKind[..., str]]:
    @yard.task()
    async def download(url: str, quality: str = "best", parts: int = 1) -> str:
        return url

    yield download
    assert sum((await yard.counts()).values()) == 0, "something was stored"


async def test_an_unknown_kind_is_named_with_those_that_exist(
    yard: Yard, download: TaskKind[..., str]
) -> None:
    with pytest.raises(UnknownKind, match="no task called upload; known are: download"):
        yard.kind("upload")
    with pytest.raises(UnknownKind, match="upload"):
        yard.worker(kinds=["upload"])


@pytest.mark.spec("engine-32")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "missing a required argument: 'url'"),
        ({"url": 5}, r"Expected `str`, got `int` - at `\$.url`"),
        ({"url": "u", "parts": "two"}, r"Expected `int`, got `str` - at `\$.parts`"),
        ({"url": "u", "size": 1}, "unexpected keyword argument 'size'"),
        ({"url": object()}, "cannot be written as JSON"),
    ],
)
async def test_wrong_arguments_are_refused_at_enqueue(
    download: TaskKind[..., str], arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidArguments, match=message):
        await download.enqueue(**arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": -1.0}, "timeout must be more than 0"),
        ({"timeout": 0.0}, "timeout must be more than 0"),
        ({"timeout": math.nan}, "timeout must be more than 0"),
        ({"priority": 11}, "priority must be from 1 .* to 10 .*, not 11"),
        ({"priority": 0}, "priority must be from 1"),
        ({"delay": -1.0}, "delay must be 0 seconds or more"),
        ({"retries": -1}, "retries must be 0 or more"),
        ({"lane": ""}, "lane must not be empty"),
        ({"key": "a\nb"}, "cannot be printed"),
        ({"keys": ("a", "a")}, "named twice"),
        ({"keys": "abc"}, "use key="),
        ({"key": "k" * 300}, "longer than 200"),
        ({"dedup_until": "noon"}, "dedup_until must be start or end"),
        ({"run_at": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
    ],
)
async def test_wrong_options_are_refused_at_enqueue(
    download: TaskKind[..., str], options: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        await download.options(**options).enqueue(url="u")  # type: ignore[arg-type]


@pytest.mark.spec("reliability-16")
async def test_a_payload_over_the_limit_is_refused(download: TaskKind[..., str]) -> None:
    with pytest.raises(PayloadTooLarge, match=r"1,000,\d\d\d bytes, the limit is 1,000,000"):
        await download.enqueue(url="x" * 1_000_000)


async def test_a_bad_handler_is_refused_where_it_is_declared(yard: Yard) -> None:
    with pytest.raises(InvalidHandler, match=r"takes \*\*rest"):

        @yard.task()
        async def open_ended(**rest: int) -> None: ...

    with pytest.raises(InvalidHandler, match="by position only"):

        @yard.task()
        async def nameless(x: int, /) -> None: ...

    with pytest.raises(InvalidHandler, match="ctx, its context, must be the first"):

        @yard.task()
        async def late(x: int, ctx: Context) -> None: ...

    with pytest.raises(InvalidHandler, match="ctx, its context, must be the first"):

        @yard.task()
        async def named(*, ctx: Context) -> None: ...

    with pytest.raises(InvalidHandler, match="__x cannot be kept"):

        @yard.task()
        async def hidden(__x: int) -> None: ...

    with pytest.raises(InvalidHandler, match="more than one array-like"):

        @yard.task()
        async def vague(x: list[int] | tuple[int, ...]) -> None: ...

    with pytest.raises(InvalidHandler, match="priority must be"):

        @yard.task(priority=11)
        async def eager() -> None: ...

    with pytest.raises(InvalidOption, match="retries must be 0 or more"):
        Retry.fixed(-1, delay=1)

    async def bare() -> None: ...

    with pytest.raises(InvalidHandler, match="with its brackets"):
        yard.task(bare)  # type: ignore[arg-type]

    @yard.task(name="same")
    async def one() -> None: ...

    with pytest.raises(InvalidHandler, match="two tasks called same"):

        @yard.task(name="same")
        async def two() -> None: ...


async def test_a_kind_that_no_worker_serves_waits_and_says_so(yard: Yard) -> None:
    @yard.task()
    async def lonely() -> None: ...

    handle = await lonely.enqueue()
    explanation = await handle.explain()
    assert explanation.text == "no live worker serves kind lonely"


async def test_what_does_not_exist_is_said(yard: Yard) -> None:
    for ask in (yard.get, yard.explain, yard.cancel, yard.retry):
        with pytest.raises(NotFound, match="there is no task nothing"):
            await ask("nothing")
    with pytest.raises(NotFound):
        await yard.handle("nothing").result(1)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("yard.db", "is not a store URL"),
        ("mysql://host/db", "there is no store for mysql://"),
        ("sqlite://", "names no file"),
        ("sqlite:///x.db?speed=high", "unknown option speed"),
        ("sqlite:///x.db?namespace=a-b", "namespace must be"),
    ],
)
def test_a_wrong_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Yard(url)


@pytest.mark.spec("reliability-13")
async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam, " * 100)
    with pytest.raises(StoreCorrupt, match="is not an SQLite database"):
        await Yard(f"sqlite:///{path}").open()
    assert path.read_text().startswith("Dear Sir")


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no folder"):
        await Yard(f"sqlite:///{tmp_path}/nowhere/yard.db").open()


def test_every_error_has_a_code_of_its_own() -> None:
    def tree(kind: type[TaskyardError]) -> list[type[TaskyardError]]:
        return [kind, *(below for child in kind.__subclasses__() for below in tree(child))]

    codes = [kind.code for kind in tree(TaskyardError)]
    assert len(set(codes)) == len(codes)
