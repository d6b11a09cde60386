"""Periodic tasks: declared by the program, looked at and changed while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, ParamSpec, TypeVar

import msgspec

from taskyard.domain.cron import CatchUp, Cron, CronEntry
from taskyard.domain.errors import InvalidHandler, InvalidOption, NotFound
from taskyard.domain.task import NewTask
from taskyard.kind import TaskKind
from taskyard.verbs.base import DEFAULT_ACTOR, Ground

P = ParamSpec("P")
R = TypeVar("R")

CatchUpName = CatchUp | Literal["skip", "one", "all"]
PROGRAM = "program"


class CronVerbs(Ground):
    def cron(
        self,
        schedule: str,
        *,
        name: str | None = None,
        timezone: str = "UTC",
        catch_up: CatchUpName = CatchUp.ONE,
    ) -> Callable[[TaskKind[P, R]], TaskKind[P, R]]:
        """Declare that this kind is started periodically, without arguments.

        Above `@yard.task()`; several may stand above each other, with names of their own. Workers
        tell the store of it when they start. docs/guides/cron.md.
        """

        def declare(kind: TaskKind[P, R]) -> TaskKind[P, R]:
            if not isinstance(kind, TaskKind):
                raise InvalidHandler("write @yard.cron(…) above @yard.task()")
            task = kind.from_payload("{}")
            self.add_cron(name or kind.name, schedule, task, timezone=timezone, catch_up=catch_up)
            return kind

        return declare

    def add_cron(
        self,
        name: str,
        schedule: str,
        task: NewTask,
        *,
        timezone: str = "UTC",
        catch_up: CatchUpName = CatchUp.ONE,
    ) -> None:
        """Declare a periodic task with arguments: `yard.add_cron("tidy", "0 3 * * *",
        tidy.new(days=7))`; `set_cron` is for those that are made at run time."""
        cron = _cron(name, schedule, task, timezone, catch_up, declared=True)
        if self._declared_crons.get(name, cron) != cron:
            raise InvalidHandler(f"there are two crons called {name}; give one another name")
        self._declared_crons[name] = cron

    async def _declare_crons(self) -> None:
        for cron in self._declared_crons.values():
            await self._keep_cron(cron, PROGRAM)

    async def crons(self) -> list[CronEntry]:
        """All that is started periodically, by name."""
        return await self.store.crons()

    async def set_cron(
        self,
        name: str,
        schedule: str,
        task: NewTask,
        *,
        timezone: str = "UTC",
        catch_up: CatchUpName = CatchUp.ONE,
        paused: bool = False,
        actor: str = DEFAULT_ACTOR,
    ) -> bool:
        """Make or replace an entry; False if it is there already, just like this.

        One that was declared by a program is the operator's from now on: it stays as it is here.
        """
        cron = _cron(name, schedule, task, timezone, catch_up, declared=False)
        return await self._keep_cron(msgspec.structs.replace(cron, paused=paused), actor)

    async def pause_cron(self, name: str, *, actor: str = DEFAULT_ACTOR) -> None:
        """Start nothing of it until `resume_cron`."""
        await self._change_cron(name, actor, paused=True)

    async def resume_cron(self, name: str, *, actor: str = DEFAULT_ACTOR) -> None:
        """Go on with the next tick; those that passed meanwhile are not made up for."""
        await self._change_cron(name, actor, paused=False)

    async def drop_cron(self, name: str, *, actor: str = DEFAULT_ACTOR) -> None:
        """Forget an entry. One that a program declares comes back when that starts a worker."""
        if not await self.store.drop_cron(name, actor=actor):
            raise NotFound(f"there is no cron {name}")

    async def _change_cron(self, name: str, actor: str, *, paused: bool) -> None:
        entry = next((entry for entry in await self.crons() if entry.cron.name == name), None)
        if entry is None:
            raise NotFound(f"there is no cron {name}")
        cron = msgspec.structs.replace(entry.cron, paused=paused, declared=False)
        await self._keep_cron(cron, actor)

    async def _keep_cron(self, cron: Cron, actor: str) -> bool:
        kept = await self.store.set_cron(cron, cron.after(await self.store.now()), actor=actor)
        self._notifier.ring()
        return kept


def _cron(
    name: str, schedule: str, task: NewTask, timezone: str, catch_up: str, *, declared: bool
) -> Cron:
    try:
        policy = CatchUp(catch_up)
    except ValueError:
        raise InvalidOption(f"catch_up is {', '.join(CatchUp)}, not {catch_up!r}") from None
    cron = Cron(
        name=name,
        schedule=schedule,
        # Each tick makes an id of its own; the same entry must look the same whenever it is made.
        task=msgspec.structs.replace(task, id=f"cron:{name}"),
        timezone=timezone,
        catch_up=policy,
        declared=declared,
    )
    cron.check()
    return cron
