"""A worker of the crash suite: `python -m tests.crash.worker --url … --record … --node w1`.

Can be armed to kill itself at the n-th pass of a named point: `--kill-at after_commit:12`.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from itertools import count

import msgspec

from taskyard import Yard
from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.points import Point, hooks
from taskyard.engine.heartbeat import Heartbeat
from tests.crash.kinds import Kinds
from tests.crash.record import Recorder, What

LEASE = 2.0
EXIT_NO_STORE = 69  # it could not even begin
_PR_SET_PDEATHSIG = 1


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    record: str
    node: str
    slots: int = 8
    lease: float = LEASE
    grace: float = 2.0
    kinds: tuple[str, ...] = ()  # none: all of them
    kill_at: tuple[Point, int] | None = None
    log: str | None = None
    clock: float = 0.0  # seconds by which the clock of its machine is wrong
    jumping: bool = False  # it is set forth and back again and again


def run(options: WorkerOptions) -> None:
    """Work until a signal, a kill point or a kill ends it."""
    die_with_parent()
    if options.log is not None:
        logging.basicConfig(
            filename=options.log,
            level=logging.INFO,
            format=f"%(asctime)s {os.getpid()} %(message)s",
        )
    if options.clock:
        _set_clock_wrong(options.clock, jumping=options.jumping)
    recorder = Recorder(options.record, options.node)
    yard = Yard(options.url)
    Kinds(yard, recorder)
    hooks.append(_announce(recorder))
    if options.kill_at is not None:
        hooks.append(_kill_at(*options.kill_at, recorder))
    _record_leaving(recorder)
    runner = asyncio.Runner()
    try:
        runner.run(_work(yard, options))
    except StoreUnavailable:
        logging.exception("the worker has ended")
        sys.exit(EXIT_NO_STORE)
    finally:
        runner.close()
    recorder.write(What.DOWN)


async def _work(yard: Yard, options: WorkerOptions) -> None:
    await yard.work(
        slots=options.slots,
        kinds=options.kinds or None,
        node_id=options.node,
        lease_seconds=options.lease,
        grace=options.grace,
    )


def die_with_parent() -> None:
    """Nothing of a test outlives it, however it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class _announce:  # noqa: N801 - used as a function
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._told = False

    def __call__(self, point: Point) -> None:
        if point is Point.BEFORE_CLAIM and not self._told:
            self._told = True
            self._recorder.write(What.UP)


class _kill_at:  # noqa: N801 - used as a function
    def __init__(self, point: Point, passes: int, recorder: Recorder) -> None:
        self._point = point
        self._left = passes
        self._recorder = recorder

    def __call__(self, point: Point) -> None:
        if point is self._point:
            self._left -= 1
            if self._left == 0:
                self._recorder.write(What.DYING, how=point)
                os.kill(os.getpid(), signal.SIGKILL)


def _set_clock_wrong(seconds: float, *, jumping: bool) -> None:
    """What others set is the time of day; clocks that only count go on as they did."""
    right, off = time.time_ns, int(seconds * 1e9)
    asked = count()

    def wrong_ns() -> int:
        return right() + (-off if jumping and next(asked) % 2 else off)

    time.time_ns = wrong_ns
    time.time = lambda: wrong_ns() / 1e9


def _record_leaving(recorder: Recorder) -> None:
    """Know when the engine ends its own process: its bodies end there."""

    def leave(code: int) -> None:
        recorder.write(What.LEFT, how=str(code))
        os._exit(code)

    defaults = Heartbeat.__init__.__kwdefaults__
    assert defaults is not None
    assert "leave" in defaults
    defaults["leave"] = leave


def _parse(arguments: Sequence[str]) -> WorkerOptions:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.worker", description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--record", required=True)
    parser.add_argument("--node", default=f"w-{os.getpid()}")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--lease", type=float, default=LEASE)
    parser.add_argument("--grace", type=float, default=2.0)
    parser.add_argument("--kinds", default="", help="comma-separated; all unless given")
    parser.add_argument("--kill-at", type=_point, help="POINT:N")
    parser.add_argument("--log")
    found = parser.parse_args(arguments)
    return WorkerOptions(
        url=found.url,
        record=found.record,
        node=found.node,
        slots=found.slots,
        lease=found.lease,
        grace=found.grace,
        kinds=tuple(filter(None, found.kinds.split(","))),
        kill_at=found.kill_at,
        log=found.log,
    )


def _point(text: str) -> tuple[Point, int]:
    name, _, passes = text.partition(":")
    return Point(name), int(passes or 1)


if __name__ == "__main__":
    run(_parse(sys.argv[1:]))
