"""Kinds that the tests of isolated processes run: children import them by this module's name.

Bodies report through files in a folder that they are given, so that nothing has to be waited for
by time.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from taskyard import Context, Fatal, NewTask, Retry, Snooze, Yard

URL = os.environ.get("TASKYARD_TEST_URL", "sqlite://:memory:")

yard = Yard(URL)
ONCE = Retry.never()
AT_ONCE = Retry.fixed(3, delay=0.0)
MB = 1_000_000


@yard.task(isolate=True, retry=ONCE)
def add(a: int, b: int = 2) -> int:
    return a + b


@yard.task(isolate=True, retry=ONCE)
async def add_async(a: int, b: int = 2) -> int:
    await asyncio.sleep(0)
    return a + b


@yard.task(isolate=True, retry=ONCE)
def where(ctx: Context) -> tuple[int, int]:
    return os.getpid(), os.getppid()


@yard.task(isolate=True, retry=ONCE)
def broken() -> None:
    raise LookupError("nothing there")


@yard.task(isolate=True, retry=ONCE)
async def hopeless() -> None:
    raise Fatal("the account is closed")


@yard.task(isolate=True)
def full_disk() -> None:
    raise OSError(errno.ENOSPC, "no room")


@yard.task(isolate=True)
async def full_disk_async() -> None:
    raise OSError(errno.EDQUOT, "no room")


@yard.task(isolate=True, retry=ONCE)
def leaving() -> None:
    sys.exit(3)


@yard.task(isolate=True)
def later(ctx: Context) -> Snooze | str:
    return Snooze(0.0) if ctx.attempt == 1 else "now"


@yard.task(isolate=True, retry=ONCE)
def telling(ctx: Context) -> str:
    ctx.report(1, 4, "first")
    [child] = ctx.enqueue_blocking(add.new(20, 3))
    ctx.log.warning("said inside", figure=7)
    logging.getLogger("an.application").error("plain %s", "words")
    return json.dumps(child.id)  # type: ignore[union-attr]


@yard.task(isolate=True, retry=ONCE)
async def telling_async(ctx: Context) -> str:
    await asyncio.gather(ctx.progress(1, 4), ctx.progress(2, 4, "second"))
    await asyncio.to_thread(ctx.report, 3, 4, "from a thread")
    [child] = await ctx.enqueue(add.new(20, 3))
    return json.dumps(child.id)  # type: ignore[union-attr]


@yard.task(isolate=True, retry=ONCE)
def talks(ctx: Context, folder: str, who: str) -> None:
    ctx.log.info("first", who=who)
    ctx.log.debug("not worth keeping")
    while not Path(folder, "go on").exists():
        time.sleep(0.005)
    ctx.log.warning("last", token="t-1")


@yard.task(isolate=True, retry=ONCE)
async def talks_async(ctx: Context) -> None:
    ctx.log.info("begun")
    await asyncio.to_thread(ctx.log.info, "from a thread")


@yard.task(isolate=True, retry=ONCE)
def talks_and_dies(ctx: Context) -> None:
    ctx.log.error("the last words")
    os.kill(os.getpid(), signal.SIGKILL)


@yard.task(isolate=True, retry=ONCE)
def forks_and_talks(ctx: Context) -> None:
    pid = os.fork()
    if pid == 0:
        ctx.log.info("of a fork")
        os._exit(0)
    os.waitpid(pid, 0)
    ctx.log.info("of the body")


@yard.task(isolate=True, retry=ONCE)
def enqueues_nonsense(ctx: Context) -> None:
    ctx.enqueue_blocking(NewTask(kind="add", payload="{}", priority=99))


@yard.task(isolate=True, retry=ONCE)
def forgets_to_await(ctx: Context) -> None:
    ctx.progress(1, 2)  # type: ignore[unused-coroutine]


@yard.task(isolate=True, retry=ONCE)
def reports_nonsense(ctx: Context) -> None:
    ctx.report("half")  # type: ignore[arg-type]


@yard.task(isolate=True, retry=ONCE)
def forks(ctx: Context) -> int:
    """A fork that comes out of the body, in whatever way, is not the body."""
    pid = os.fork()
    if pid == 0:
        logging.getLogger("a.fork").warning("speaks for itself")
        ctx.report(1, 2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# --- dying ---


@yard.task(isolate=True, retry=AT_ONCE)
def segfault() -> None:
    ctypes.string_at(0)


@yard.task(isolate=True, retry=AT_ONCE)
async def exits() -> None:
    os._exit(7)


@yard.task(isolate=True, retry=ONCE)
def killed_once() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# --- stopping ---


def _touch(folder: str, name: str, text: str = "") -> None:
    """Whole or not at all: whoever sees the file can read it."""
    hidden = Path(folder, f".{name}.{os.getpid()}")
    hidden.write_text(text or str(os.getpid()))
    hidden.rename(Path(folder, name))


@yard.task(isolate=True, retry=ONCE)
def deaf(folder: str) -> None:
    """Ignores everything it can ignore."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _touch(folder, "pid")
    while True:
        try:
            time.sleep(60)
        except BaseException:  # noqa: S112, BLE001, RUF100
            continue


@yard.task(isolate=True, retry=ONCE)
async def deaf_async(folder: str) -> None:
    _touch(folder, "pid")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@yard.task(isolate=True, retry=ONCE)
def looking(ctx: Context, folder: str) -> None:
    _touch(folder, "pid")
    while not ctx.cancelled:
        time.sleep(0.001)
    _touch(folder, "seen")
    ctx.raise_if_cancelled()


@yard.task(isolate=True, retry=ONCE)
def sleeping(folder: str) -> None:
    """Does not look, but can be interrupted."""
    _touch(folder, "pid")
    try:
        time.sleep(600)
    finally:
        _touch(folder, "cleaned")


@yard.task(isolate=True, retry=ONCE)
async def sleeping_async(folder: str) -> None:
    _touch(folder, "pid")
    try:
        await asyncio.sleep(600)
    finally:
        _touch(folder, "cleaned")


# --- grandchildren ---

_SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
_DEAF_CODE = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
_DEAF = [sys.executable, "-c", _DEAF_CODE]


def _start_family() -> list[int]:
    """One in the group, one in a session of its own, one detached twice, one deaf."""
    near = subprocess.Popen(_SLEEPER)
    far = subprocess.Popen(_SLEEPER, start_new_session=True)
    deaf_one = subprocess.Popen(_DEAF, stdout=subprocess.PIPE, start_new_session=True)
    assert deaf_one.stdout is not None
    deaf_one.stdout.readline()
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write, str(os.getpid()).encode())
            os.execv(_SLEEPER[0], _SLEEPER)
        os._exit(0)
    os.wait()
    daemon = int(os.read(read, 100))
    return [near.pid, far.pid, deaf_one.pid, daemon]


@yard.task(isolate=True, retry=ONCE)
def with_family(folder: str, then: str) -> None:
    """Starts processes in every way there is, then returns, hangs or dies."""
    _touch(folder, "family", json.dumps([os.getpid(), *_start_family()]))
    if then == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif then == "hang":
        time.sleep(600)


# --- memory ---


@yard.task(memory_limit=150 * MB, retry=ONCE)
def hog() -> None:
    held = []
    while True:
        held.append(bytearray(1 * MB))


@yard.task(memory_limit=150 * MB, retry=ONCE)
def hog_at_once() -> int:
    return len(bytearray(100_000 * MB))


@yard.task(memory_limit=150 * MB, retry=ONCE)
def hog_below() -> None:
    code = "import time; x = b'x' * 300_000_000; time.sleep(600)"  # used, not only reserved
    subprocess.run([sys.executable, "-c", code], check=True)


@yard.task(memory_limit=200 * MB, retry=ONCE)
def shares(folder: str) -> int:
    """What is shared with forks is used once, however often it is mapped."""
    held = bytearray(os.urandom(1 * MB)) * 90
    children = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
        children.append(pid)
    _touch(folder, "sharing")
    while not Path(folder, "enough").exists():
        time.sleep(0.01)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return len(held)


@yard.task(memory_limit=100 * MB, retry=ONCE)
def grows() -> int:
    """Keeps something for ever, as a leak does."""
    _kept.append(bytearray(60 * MB))
    return os.getpid()


_kept: list[bytearray] = []


@yard.task(retry=ONCE)
async def neighbour() -> int:
    return os.getpid()


def isolated_helper() -> None:
    """Not declared here."""
