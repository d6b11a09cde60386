"""Kinds that can be paused, in each of the ways a body can run; children import them from here.

Each counts up to `last`, keeps how far it has come, and tells through files in a folder: `at` when
it has begun, `second` when it is about to count to two, `pausing` when it has heard that it is to
pause.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import msgspec

from taskyard import Context, Retry, Yard

yard = Yard(os.environ.get("TASKYARD_TEST_URL", "sqlite://:memory:"))
ONCE = Retry.never()
LOOK = 0.005


class Place(msgspec.Struct):
    count: int


def begun(ctx: Context, folder: str, stop_at: int) -> int:
    place = ctx.saved_as(Place)
    draft = Path(folder, "draft")
    draft.write_text(f"{ctx.attempt} {ctx.saved}")
    draft.rename(Path(folder, "at"))  # there only once it is whole
    return 0 if place is None else min(place.count, stop_at)


def tell(folder: str, name: str) -> None:
    Path(folder, name).touch()


async def hear_on_loop(ctx: Context, wanted: bool) -> None:
    while ctx.pausing is not wanted:  # noqa: ASYNC110 - bodies have nothing that would ring
        await asyncio.sleep(LOOK)


def hear_in_thread(ctx: Context, wanted: bool) -> None:
    while ctx.pausing is not wanted:
        time.sleep(LOOK)


async def count_on_loop(ctx: Context, folder: str, last: int = 3) -> int:
    count = begun(ctx, folder, last)
    while count < last:
        count += 1
        if count == 2 and ctx.attempt == 1:
            tell(folder, "second")
            await hear_on_loop(ctx, True)
        try:
            await ctx.checkpoint(Place(count))
        except Exception:
            count = -100
    return count


def count_in_thread(ctx: Context, folder: str, last: int = 3) -> int:
    count = begun(ctx, folder, last)
    while count < last:
        count += 1
        if count == 2 and ctx.attempt == 1:
            tell(folder, "second")
            hear_in_thread(ctx, True)
        try:
            ctx.checkpoint_blocking(Place(count))
        except Exception:
            count = -100
    return count


async def change_of_mind_on_loop(ctx: Context, folder: str) -> int:
    tell(folder, "at")
    await hear_on_loop(ctx, True)
    tell(folder, "pausing")
    await hear_on_loop(ctx, False)
    await ctx.checkpoint()
    return ctx.attempt


def change_of_mind_in_thread(ctx: Context, folder: str) -> int:
    tell(folder, "at")
    hear_in_thread(ctx, True)
    tell(folder, "pausing")
    hear_in_thread(ctx, False)
    ctx.checkpoint_blocking()
    return ctx.attempt


async def endless_on_loop(ctx: Context, folder: str) -> None:
    await ctx.checkpoint("before")
    tell(folder, "at")
    await asyncio.Event().wait()


def endless_in_thread(ctx: Context, folder: str) -> None:
    ctx.checkpoint_blocking("before")
    tell(folder, "at")
    while True:
        ctx.raise_if_cancelled()
        time.sleep(LOOK)


@yard.task(retry=ONCE)
async def coroutine(ctx: Context, folder: str) -> int:
    return await count_on_loop(ctx, folder)


@yard.task(retry=ONCE)
def thread(ctx: Context, folder: str) -> int:
    return count_in_thread(ctx, folder)


@yard.task(retry=ONCE, isolate=True)
async def isolated_coroutine(ctx: Context, folder: str) -> int:
    return await count_on_loop(ctx, folder)


@yard.task(retry=ONCE, isolate=True)
def isolated(ctx: Context, folder: str) -> int:
    return count_in_thread(ctx, folder)


@yard.task(retry=ONCE)
async def fickle_coroutine(ctx: Context, folder: str) -> int:
    return await change_of_mind_on_loop(ctx, folder)


@yard.task(retry=ONCE)
def fickle_thread(ctx: Context, folder: str) -> int:
    return change_of_mind_in_thread(ctx, folder)


@yard.task(retry=ONCE, isolate=True)
async def fickle_isolated_coroutine(ctx: Context, folder: str) -> int:
    return await change_of_mind_on_loop(ctx, folder)


@yard.task(retry=ONCE, isolate=True)
def fickle_isolated(ctx: Context, folder: str) -> int:
    return change_of_mind_in_thread(ctx, folder)


@yard.task(retry=ONCE)
async def endless_coroutine(ctx: Context, folder: str) -> None:
    await endless_on_loop(ctx, folder)


@yard.task(retry=ONCE)
def endless_thread(ctx: Context, folder: str) -> None:
    endless_in_thread(ctx, folder)


@yard.task(retry=ONCE, isolate=True)
async def endless_isolated_coroutine(ctx: Context, folder: str) -> None:
    await endless_on_loop(ctx, folder)


@yard.task(retry=ONCE, isolate=True)
def endless_isolated(ctx: Context, folder: str) -> None:
    endless_in_thread(ctx, folder)


@yard.task(retry=ONCE, isolate=True)
def deaf_isolated(ctx: Context, folder: str) -> None:
    tell(folder, "at")
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue
