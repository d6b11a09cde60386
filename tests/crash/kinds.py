"""The kinds that crash workers run: each body writes its start and its end into the record."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from taskyard import Context, Retry, TaskKind, Yard
from taskyard.domain.errors import StaleAttempt
from tests.crash.record import Recorder, What

LANE = "narrow"  # the lane with a capacity
CAPACITY = 3
SHARED = "shared"  # a key that more than one may hold
SHARED_LIMIT = 2

STEP = 0.01  # seconds between two looks of a body that waits for something


class Kinds:
    """`result` is the attempt that returned it, so that the store tells whom it believed."""

    def __init__(self, yard: Yard, recorder: Recorder) -> None:
        self._recorder = recorder
        at_once = Retry.fixed(3, delay=0.05)

        @yard.task()
        async def quick(ctx: Context, keys: list[str], lane: str) -> int:
            with recorder.body(ctx.id, ctx.attempt, keys, lane):
                return ctx.attempt

        @yard.task(retry=at_once)
        async def slow(ctx: Context, keys: list[str], lane: str, seconds: float) -> int:
            with recorder.body(ctx.id, ctx.attempt, keys, lane):
                await asyncio.sleep(seconds)
                return ctx.attempt

        @yard.task(retry=at_once)
        def thread(ctx: Context, keys: list[str], lane: str, seconds: float) -> int:
            with recorder.body(ctx.id, ctx.attempt, keys, lane):
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    ctx.raise_if_cancelled()
                    time.sleep(STEP)
                return ctx.attempt

        @yard.task(retry=at_once)
        async def flaky(ctx: Context, keys: list[str], lane: str, failures: int) -> int:
            with recorder.body(ctx.id, ctx.attempt, keys, lane):
                if ctx.attempt <= failures:
                    raise ConnectionError("not yet")
                return ctx.attempt

        @yard.task(retry=at_once)
        async def blocking(ctx: Context, keys: list[str], lane: str, seconds: float) -> int:
            with recorder.body(ctx.id, ctx.attempt, keys, lane):
                time.sleep(seconds)  # noqa: ASYNC251 - this is the fault
                return ctx.attempt

        @yard.task()
        async def what_time() -> float:
            return time.time()

        self.what_time: TaskKind[[], float] = what_time
        self.quick: TaskKind[[list[str], str], int] = quick
        self.slow: TaskKind[[list[str], str, float], int] = slow
        self.thread: TaskKind[[list[str], str, float], int] = thread
        self.flaky: TaskKind[[list[str], str, int], int] = flaky
        self.blocking: TaskKind[[list[str], str, float], int] = blocking
        self._gated(yard)
        self._hostile(yard)

    def _gated(self, yard: Yard) -> None:
        """Bodies that wait for a file: tests say when."""
        recorder = self._recorder

        @yard.task()
        async def gated(ctx: Context, gate: str, keys: list[str]) -> int:
            with recorder.body(ctx.id, ctx.attempt, keys, "default"):
                await _opens(gate)
                return ctx.attempt

        @yard.task()
        def gated_thread(ctx: Context, gate: str) -> int:
            """Does not look whether it is to stop."""
            with recorder.body(ctx.id, ctx.attempt, (), "default"):
                while not is_open(gate):
                    time.sleep(STEP)
                return ctx.attempt

        @yard.task()
        async def parent(ctx: Context, gate: str, keys: list[str]) -> int:
            """Behind the gate, writes to the store in every way a body can."""
            with recorder.body(ctx.id, ctx.attempt, keys, "default"):
                await _opens(gate)
                try:
                    await ctx.enqueue(self.quick.new([], "default"))
                    await ctx.progress(1.0, 1.0, f"attempt {ctx.attempt}")
                except StaleAttempt:
                    recorder.write(What.NOTE, task=ctx.id, attempt=ctx.attempt, how="stale")
                return ctx.attempt

        @yard.task()
        async def claims_while_blocked(ctx: Context, seconds: float) -> int:
            """Blocks the loop while the answer of a claim is on its way."""
            with recorder.body(ctx.id, ctx.attempt, (), "default"):
                await ctx.enqueue(self.slow.new([], "default", 3.0))
                for _ in range(5):
                    await asyncio.sleep(0)
                time.sleep(seconds)  # noqa: ASYNC251 - this is the fault
                return ctx.attempt

        self.gated: TaskKind[[str, list[str]], int] = gated
        self.gated_thread: TaskKind[[str], int] = gated_thread
        self.parent: TaskKind[[str, list[str]], int] = parent
        self.claims_while_blocked: TaskKind[[float], int] = claims_while_blocked

    def _hostile(self, yard: Yard) -> None:
        recorder = self._recorder

        @yard.task(retry=Retry.fixed(5, delay=0))
        async def deadly(ctx: Context) -> int:
            """Takes its process with it."""
            recorder.write(What.START, task=ctx.id, attempt=ctx.attempt, lane="default")
            recorder.write(What.DYING, task=ctx.id, attempt=ctx.attempt)
            os.kill(os.getpid(), signal.SIGKILL)
            return ctx.attempt

        @yard.task(retry=Retry.fixed(1, delay=0))
        async def hanging(ctx: Context) -> int:
            with recorder.body(ctx.id, ctx.attempt, (), "default"):
                await asyncio.Event().wait()
                return ctx.attempt

        @yard.task(retry=Retry.fixed(1, delay=0))
        def hanging_thread(ctx: Context) -> int:
            with recorder.body(ctx.id, ctx.attempt, (), "default"):
                while True:
                    ctx.raise_if_cancelled()
                    time.sleep(STEP)

        @yard.task()
        async def stubborn(ctx: Context, gate: str) -> int:
            """Will not be cancelled."""
            with recorder.body(ctx.id, ctx.attempt, (), "default"):
                while not is_open(gate):
                    try:
                        await asyncio.sleep(STEP)
                    except asyncio.CancelledError:
                        recorder.write(What.NOTE, task=ctx.id, how="ignored a cancellation")
                return ctx.attempt

        self.deadly: TaskKind[[], int] = deadly
        self.hanging: TaskKind[[], int] = hanging
        self.hanging_thread: TaskKind[[], int] = hanging_thread
        self.stubborn: TaskKind[[str], int] = stubborn


def is_open(gate: str) -> bool:
    return Path(gate).exists()


async def _opens(gate: str) -> None:
    while not is_open(gate):  # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(STEP)
