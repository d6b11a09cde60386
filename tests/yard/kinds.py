"""Kinds that run in processes of their own, which import them by this module's name."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from taskyard import Context, Retry, Yard

yard = Yard("sqlite://:memory:")
ONCE = Retry.never()


def note(folder: str, line: str) -> None:
    with Path(folder, "notes").open("a") as notes:
        notes.write(f"{line}\n")


@yard.resource
async def pool() -> AsyncIterator[list[str]]:
    folder = os.environ["TASKYARD_TEST_NOTES"]
    note(folder, f"open pool {os.getpid()}")
    yield [f"pool {os.getpid()}"]
    note(folder, f"close pool {os.getpid()}")


@yard.resource
def files() -> Iterator[str]:
    folder = os.environ["TASKYARD_TEST_NOTES"]
    note(folder, f"open files {os.getpid()}")
    yield f"files {os.getpid()}"
    note(folder, f"close files {os.getpid()}")


@yard.task(isolate=True, retry=ONCE)
async def with_pool(ctx: Context) -> list[str]:
    [one] = await ctx.resource(pool)
    return [one, await ctx.resource(files)]


@yard.task(isolate=True, retry=ONCE)
def with_files(ctx: Context) -> list[str]:
    return [*ctx.resource_blocking(pool), ctx.resource_blocking(files)]


@yard.task(isolate=True, retry=ONCE)
def double(number: int) -> int:
    return number * 2


@yard.task(isolate=True, retry=ONCE)
async def total(ctx: Context) -> int:
    return sum(await ctx.results(double))


@yard.task(isolate=True, retry=ONCE)
def total_blocking(ctx: Context) -> int:
    return sum(ctx.results_blocking(double))


@yard.task(isolate=True, retry=ONCE, version=2)
def greet(whole_name: str) -> str:
    return f"Hello {whole_name}"


@greet.migrate(from_version=1)
def _(old: dict[str, str]) -> dict[str, str]:
    return {"whole_name": f"{old['first']} {old['last']}"}


@yard.task(isolate=True, retry=ONCE)
def hooked(ctx: Context, folder: str) -> str:
    note(folder, "body")
    return folder


@hooked.before
def _begins(ctx: Context) -> None:
    note(os.environ["TASKYARD_TEST_NOTES"], f"before {ctx.kind}")


@hooked.after
async def _ended(ctx: Context, result: str) -> None:
    note(result, f"after {ctx.kind}")


def added_to(other: Yard) -> Yard:
    """A yard somewhere else, with these kinds."""
    for kind in yard.registry:
        other.registry.add(kind)
    return other
