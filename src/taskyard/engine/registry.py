"""The kinds of task a yard knows and how each is run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

from taskyard.domain.classify import Classifier
from taskyard.domain.errors import InvalidHandler, InvalidOption, UnknownKind
from taskyard.domain.retry import Retry, RetryPolicy
from taskyard.domain.task import (
    DEFAULT_LANE,
    DEFAULT_PRIORITY,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT,
    NewTask,
)
from taskyard.engine import versions
from taskyard.engine.hooks import Hooks
from taskyard.engine.signature import Signature
from taskyard.engine.versions import Versions

DEFAULT_RETRY = Retry.exponential(DEFAULT_RETRIES)
DEFAULT_MEMORY_LIMIT = 500_000_000  # bytes; of isolated kinds


class Style(StrEnum):
    COROUTINE = "coroutine"  # async def: on the event loop
    THREAD = "thread"  # def: in a thread
    PROCESS = "process"  # either, isolated: in a process of its own


class Kind:
    """A handler with its policies."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        lane: str = DEFAULT_LANE,
        priority: int = DEFAULT_PRIORITY,
        timeout: float = DEFAULT_TIMEOUT,
        retry: RetryPolicy = DEFAULT_RETRY,
        classifier: Classifier | None = None,
        isolate: bool = False,
        memory_limit: int | None = None,
        version: int = versions.FIRST,
        aliases: tuple[str, ...] = (),
        hooks: Hooks | None = None,
    ) -> None:
        self.name = name
        self.versions = Versions(name, aliases, version)
        self.route = self.versions.route
        self.hooks = Hooks(hooks)
        self.function = function
        self.lane = lane
        self.priority = priority
        self.timeout = timeout
        self.retry = retry
        self.classifier = classifier or Classifier()
        self.is_coroutine = inspect.iscoroutinefunction(function)
        self.style = Style.COROUTINE if self.is_coroutine else Style.THREAD
        self.signature = Signature(name, function)
        self.memory_limit = DEFAULT_MEMORY_LIMIT if memory_limit is None else memory_limit
        if isolate or memory_limit is not None:
            self.style = Style.PROCESS
        self._check()

    def _check(self) -> None:
        """A bad default is found where the kind is declared, not at its first enqueue."""
        if self.memory_limit < 0:
            raise InvalidHandler(
                f"task {self.name}: memory_limit is in bytes, and 0 for none, "
                f"not {self.memory_limit}"
            )
        if self.style is Style.PROCESS and "<" in self.function.__qualname__:
            raise InvalidHandler(
                f"task {self.name} is isolated, but {self.function.__qualname__} is made inside a "
                "function: another process cannot import it; declare it at the top of a module"
            )
        try:
            NewTask(
                kind=self.route,
                payload="{}",
                id="declared",
                lane=self.lane,
                priority=self.priority,
                timeout=self.timeout,
            ).check()
        except InvalidOption as error:
            raise InvalidHandler(f"task {self.name}: {error}") from None


class Registry:
    """Kinds by the names they go by. A route (`download@2`) finds its kind too."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}

    def add(self, kind: Kind) -> None:
        for name in kind.versions.names:
            known = self._kinds.get(name)
            if known is not None and known.function is not kind.function:
                raise InvalidHandler(f"there are two tasks called {name}; give one another name")
        for name in kind.versions.names:
            self._kinds[name] = kind

    def __getitem__(self, route: str) -> Kind:
        kind = self._kinds.get(route) or self._kinds.get(versions.split(route)[0])
        if kind is None:
            known = ", ".join(sorted(self._kinds)) or "none"
            raise UnknownKind(f"there is no task called {route}; known are: {known}")
        return kind

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def __iter__(self) -> Iterator[Kind]:
        return iter(dict.fromkeys(self._kinds.values()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(kind.name for kind in self)

    def routes(self, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """Everything that a worker for these kinds, or for all, can run."""
        kinds = self if names is None else [self[name] for name in names]
        return tuple(dict.fromkeys(route for kind in kinds for route in kind.versions.routes))
