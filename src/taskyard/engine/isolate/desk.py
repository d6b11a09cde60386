"""What a context asks of the worker, asked from a child."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import NoReturn, TypeVar

import msgspec

from taskyard.domain import errors
from taskyard.domain.logs import Level
from taskyard.domain.node import Hold
from taskyard.domain.task import Claimed, Enqueue, NewTask, Progress
from taskyard.engine.context import Context
from taskyard.engine.isolate.channel import Channel
from taskyard.engine.isolate.messages import Answer, Children, Keep, Message, Needed, Report, Said
from taskyard.engine.log import Logger
from taskyard.engine.resources import Resources
from taskyard.engine.tracing import below, current
from taskyard.store.port import Ending

T = TypeVar("T")
M = TypeVar("M", Report, Keep, Children)


class ChildDesk:
    """The hold is not sent: the worker knows which attempt this child runs."""

    def __init__(self, channel: Channel, resources: Resources, least_kept: int) -> None:
        self._channel = channel
        self.resources = resources
        self.least_kept = least_kept

    async def report(self, hold: Hold, progress: Progress) -> bool:  # noqa: ARG002 - as the worker's
        number = self._channel.next_number()
        return (await self._ask(number, _sound(Report(number, progress)))).accepted

    async def checkpoint(self, hold: Hold, data: str) -> bool:  # noqa: ARG002 - as the worker's
        number = self._channel.next_number()
        return (await self._ask(number, Keep(number, data))).accepted

    def keep_line(self, hold: Hold, level: Level, text: str) -> None:  # noqa: ARG002 - as the worker's
        if self._channel.is_mine:  # no fork that the body has made
            self._channel.send(Said(level, text))

    async def dependencies(self, task_id: str) -> list[Ending]:  # noqa: ARG002 - as the worker's
        number = self._channel.next_number()
        return (await self._ask(number, Needed(number))).endings

    async def enqueue(
        self,
        tasks: Sequence[NewTask],
        *,
        by: Hold | None,  # noqa: ARG002 - the parent knows
    ) -> list[Enqueue]:
        number = self._channel.next_number()
        children = Children(number, list(below(tasks, current())))
        return (await self._ask(number, _sound(children))).enqueued

    async def _ask(self, number: int, request: Message) -> Answer:
        """A plain function waits; nobody else has use of this thread."""
        return _checked(self._channel.exchange(number, request))


class LoopDesk(ChildDesk):
    """For coroutines: several may wait at once, and the loop goes on."""

    def __init__(self, channel: Channel, resources: Resources, least_kept: int) -> None:
        super().__init__(channel, resources, least_kept)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}

    async def _ask(self, number: int, request: Message) -> Answer:
        self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._channel.send(request)
            return _checked(await self._waiting[number])
        finally:
            del self._waiting[number]

    def hear(self) -> None:
        """Take in what has come, without waiting."""
        self._channel.receive_ready()
        for message in self._channel.heard():
            if isinstance(message, Answer):
                waiting = self._waiting.get(message.number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)


class PlainContext(Context):
    """For plain functions: to look whether they are to stop, they look at the socket."""

    __slots__ = ("_channel", "_runner")

    def __init__(
        self,
        claimed: Claimed,
        channel: Channel,
        log: Logger,
        desk: ChildDesk,
        runner: asyncio.Runner,
    ) -> None:
        self._claimed = claimed
        self._desk = desk
        self._channel = channel
        self._runner = runner
        self._log = log
        self._stop = False
        self._pausing = False
        self._saved = claimed.checkpoint

    @property
    def cancelled(self) -> bool:
        if not self._stop:
            self._channel.listen()
        return self._stop

    @property
    def pausing(self) -> bool:
        self._channel.listen()
        return self._pausing

    def awaited(self, make: Callable[[], Coroutine[object, object, T]]) -> T:
        """On the loop that a child has for what lives longer than a body."""
        return self._runner.run(make())

    def _is_on_loop(self) -> bool:
        """That of the child, whose bodies and hooks run in one thread."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    def _wait_for(self, make: Callable[[], Coroutine[object, object, T]]) -> T:
        """Nothing of a ChildDesk ever has to wait for a loop."""
        try:
            make().send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        raise RuntimeError("this needs an event loop")


def _sound(request: M) -> M:
    """What the worker will read, so that what is wrong with it is the body's own error."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=type(request))


def _checked(answer: Answer) -> Answer:
    if answer.error is not None:
        _raise(*answer.error)
    return answer


def _raise(name: str, message: str) -> NoReturn:
    """The error that the worker met, of the same class."""
    kind = getattr(errors, name, errors.TaskyardError)
    raise kind(message)
