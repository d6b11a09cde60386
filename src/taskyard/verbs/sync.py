"""The same verbs for callers that block: each is the verb itself, run on the bridge's loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from taskyard.bridge import Bridge
from taskyard.handle import SyncHandle
from taskyard.store.url import is_in_memory
from taskyard.verbs.every import EveryVerb

P = ParamSpec("P")
T = TypeVar("T")


class Twin(EveryVerb):
    """A yard with the same kinds and its own connections, at home on the bridge's loop.

    What is in memory is in one store only, which both use.
    """

    def __init__(self, other: EveryVerb) -> None:
        self.url = other.url
        self.retention = other.retention
        self.registry = other.registry
        self.classifier = other.classifier
        self._hooks = other._hooks  # noqa: SLF001 - a twin
        self._declared_crons = other._declared_crons  # noqa: SLF001 - a twin
        self._bridge = other._bridge  # noqa: SLF001 - a twin
        self._settle(other.store if is_in_memory(other.url) else None)

    async def close(self) -> None:
        if is_in_memory(self.url):
            await self._enqueuer.stop()
            await self._waiting.stop()
            self._notifier.stop()
        else:
            await super().close()


class _OnBridge:
    def __init__(self, yard: EveryVerb, bridge: Bridge[Twin]) -> None:
        self._yard = yard
        self._bridge = bridge

    def run(self, ask: Callable[[Twin], Coroutine[Any, Any, T]]) -> T:
        return self._bridge.run(ask)


def _blocking(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_OnBridge, P], T]:
    @functools.wraps(verb)
    def call(self: _OnBridge, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(lambda yard: verb(yard, *args, **kwargs))

    return call


class SyncYard(_OnBridge):
    """`yard.sync`: `yard.sync.cancel(id)` is `await yard.cancel(id)`, from any thread.

    It has connections of its own and is safe after a fork.
    """

    exists = _blocking(EveryVerb.exists)
    schema = _blocking(EveryVerb.schema)
    open = _blocking(EveryVerb.open)

    enqueue = _blocking(EveryVerb.enqueue)
    get = _blocking(EveryVerb.get)
    find = _blocking(EveryVerb.find)
    page = _blocking(EveryVerb.page)
    logs = _blocking(EveryVerb.logs)
    ending = _blocking(EveryVerb.ending)
    cancel = _blocking(EveryVerb.cancel)
    cancel_all = _blocking(EveryVerb.cancel_all)
    pause_task = _blocking(EveryVerb.pause_task)
    resume_task = _blocking(EveryVerb.resume_task)
    retry = _blocking(EveryVerb.retry)
    prioritize = _blocking(EveryVerb.prioritize)
    explain = _blocking(EveryVerb.explain)
    counts = _blocking(EveryVerb.counts)

    lanes = _blocking(EveryVerb.lanes)
    set_lane = _blocking(EveryVerb.set_lane)
    pause_lane = _blocking(EveryVerb.pause_lane)
    resume_lane = _blocking(EveryVerb.resume_lane)
    pause = _blocking(EveryVerb.pause)
    resume = _blocking(EveryVerb.resume)
    is_paused = _blocking(EveryVerb.is_paused)
    keys = _blocking(EveryVerb.keys)
    key_rules = _blocking(EveryVerb.key_rules)
    limit_key = _blocking(EveryVerb.limit_key)

    crons = _blocking(EveryVerb.crons)
    set_cron = _blocking(EveryVerb.set_cron)
    pause_cron = _blocking(EveryVerb.pause_cron)
    resume_cron = _blocking(EveryVerb.resume_cron)
    drop_cron = _blocking(EveryVerb.drop_cron)

    statistics = _blocking(EveryVerb.statistics)
    nodes = _blocking(EveryVerb.nodes)
    drain_node = _blocking(EveryVerb.drain_node)
    audit = _blocking(EveryVerb.audit)
    note = _blocking(EveryVerb.note)
    prune = _blocking(EveryVerb.prune)
    diagnose = _blocking(EveryVerb.diagnose)

    def handle(self, task_id: str) -> SyncHandle[Any]:
        """A handle on a task known by its id; its result comes as plain data."""
        return SyncHandle(self._yard.handle(task_id), self._bridge)

    def close(self) -> None:
        """Close these connections and end the loop; the next verb begins anew."""
        self._bridge.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        self.close()
