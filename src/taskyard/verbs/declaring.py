"""Declaring kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from taskyard.domain.classify import Rule
from taskyard.domain.errors import InvalidHandler
from taskyard.domain.retry import RetryPolicy
from taskyard.domain.task import DEFAULT_LANE, DEFAULT_PRIORITY, DEFAULT_TIMEOUT
from taskyard.engine.context import Context
from taskyard.engine.hooks import A, B, E, When
from taskyard.engine.registry import DEFAULT_RETRY, Kind
from taskyard.engine.resources import Resource
from taskyard.kind import TaskKind
from taskyard.options import names
from taskyard.verbs.tasks import TaskVerbs

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Declare:
    """What `@yard.task(...)` gives: turns a function into a TaskKind."""

    def __init__(self, make: Callable[[Callable[..., Any]], TaskKind[Any, Any]]) -> None:
        self._make = make

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Awaitable[R]]
    ) -> TaskKind[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> TaskKind[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> TaskKind[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> TaskKind[P, R]: ...

    def __call__(self, function: Callable[..., Any]) -> TaskKind[Any, Any]:
        return self._make(function)


class Declaring(TaskVerbs):
    """A kind asks the verbs of tasks, so it is declared where they are."""

    def task(
        self,
        bare: None = None,
        /,
        *,
        name: str | None = None,
        lane: str = DEFAULT_LANE,
        priority: int = DEFAULT_PRIORITY,
        timeout: float = DEFAULT_TIMEOUT,
        retry: RetryPolicy = DEFAULT_RETRY,
        rules: Sequence[Rule] = (),
        isolate: bool = False,
        memory_limit: int | None = None,
        version: int = 1,
        aliases: Sequence[str] = (),
    ) -> Declare:
        """Declare a kind: `async def` runs on the loop, `def` in a thread.

        `rules` are asked before the yard's own which errors are worth a retry. With `isolate` or a
        `memory_limit` (bytes; 500 MB unless said, 0 for none) bodies run in processes of their
        own, which can be killed; docs/guides/isolated.md. `version` counts changes of the
        parameters, `aliases` are older names of the task; docs/guides/versions.md.
        """
        if bare is not None:
            raise InvalidHandler("write @yard.task() with its brackets, also without options")

        def make(function: Callable[..., Any]) -> TaskKind[Any, Any]:
            kind = Kind(
                name or function.__name__,
                function,
                lane=lane,
                priority=priority,
                timeout=timeout,
                retry=retry,
                classifier=self.classifier.extended(*rules) if rules else self.classifier,
                isolate=isolate,
                memory_limit=memory_limit,
                version=version,
                aliases=names("aliases", aliases),
                hooks=self._hooks,
            )
            self.registry.add(kind)
            return TaskKind(kind, self)

        return Declare(make)

    def kind(self, name: str) -> TaskKind[..., Any]:
        """The declared task of this name."""
        return TaskKind(self.registry[name], self)

    @overload
    def resource(self, function: Callable[[], AsyncIterator[T]]) -> Resource[T]: ...

    @overload
    def resource(self, function: Callable[[], Iterator[T]]) -> Resource[T]: ...

    @overload
    def resource(self, function: Callable[[], AbstractAsyncContextManager[T]]) -> Resource[T]: ...

    @overload
    def resource(self, function: Callable[[], AbstractContextManager[T]]) -> Resource[T]: ...

    def resource(self, function: Callable[[], Any]) -> Resource[Any]:
        """Declare something that bodies share, made by a worker when it is first used and closed
        when it stops: the function yields it, `ctx.resource(…)` gives it; docs/guides/resources.md.
        """
        return Resource(function)

    def before(self, hook: B) -> B:
        """Declare what is called before each body, `(ctx)`; docs/guides/hooks.md."""
        self._hooks.add(When.BEFORE, hook)
        return hook

    def after(self, hook: A) -> A:
        """Declare what is called after each body that has returned, `(ctx, result)`."""
        self._hooks.add(When.AFTER, hook)
        return hook

    def error(self, hook: E) -> E:
        """Declare what is called after each attempt that has failed, `(ctx, error)`."""
        self._hooks.add(When.ERROR, hook)
        return hook
