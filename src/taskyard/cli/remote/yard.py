"""The yard of a server, as commands know a yard. Who acts is whom the token names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import msgspec

from taskyard.cli.remote.link import Link, below
from taskyard.cli.remote.looking import Looking, task_path
from taskyard.cli.remote.token import token_from
from taskyard.cli.remote.wire import Acted, Created, SeenCron, SeenLane
from taskyard.domain.errors import InvalidArguments, InvalidOption, TaskRefused
from taskyard.domain.lane import KeyRule, Lane
from taskyard.domain.rate import Rate
from taskyard.domain.retention import Pruned
from taskyard.domain.task import Duplicate, Enqueued
from taskyard.store.port import Cancellation, Pausing
from taskyard.verbs.lanes import UNSET, OrderName, Unset


def remote_yard(url: str, token_file: str | None) -> RemoteYard:
    return RemoteYard(Link(url, token_from(token_file)))


class RemoteYard(Looking):
    """Its verbs are those of a `Yard`; the actor that is handed over is not used."""

    @property
    def url(self) -> str:
        return self._link.url

    @property
    def store(self) -> RemoteYard:
        """For its clock."""
        return self

    async def exists(self) -> bool:
        """A server has always opened its yard."""
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        self._link.close()

    # --- tasks ---

    async def create(self, kind: str, payload: str, **options: Any) -> Enqueued | Duplicate:
        """What is not said is as the kind declares it, at the server."""
        said = {name: value for name, value in options.items() if value is not None}
        body = {"kind": kind, "params": _params(kind, payload), **said}
        try:
            made = await self._link.send("POST", "/api/tasks", Created, body)
        except TaskRefused as error:
            raise TaskRefused(f"task {kind} was refused: {error}") from None
        if made.outcome == "duplicate":
            return Duplicate(made.id, made.changed)
        return Enqueued(made.id)

    async def cancel(self, task_id: str, *, actor: str = "") -> Cancellation:
        return Cancellation((await self._act(task_id, "cancel", actor)).outcome)

    async def pause_task(self, task_id: str, *, actor: str = "") -> Pausing:
        return Pausing((await self._act(task_id, "pause", actor)).outcome)

    async def resume_task(self, task_id: str, *, actor: str = "") -> None:
        await self._act(task_id, "resume", actor)

    async def retry(self, task_id: str, *, actor: str = "") -> None:
        await self._act(task_id, "retry", actor)

    async def prioritize(self, task_id: str, priority: int, *, actor: str = "") -> None:
        await self._act(task_id, "prioritize", actor, {"priority": priority})

    async def _act(
        self, task_id: str, action: str, _actor: str, body: Mapping[str, Any] | None = None
    ) -> Acted:
        return await self._link.send("POST", task_path(task_id, action), Acted, body)

    # --- lanes, keys, the whole ---

    async def set_lane(
        self,
        name: str,
        *,
        capacity: int | Unset | None = UNSET,
        max_depth: int | Unset | None = UNSET,
        rate: Rate | Unset | None = UNSET,
        order: OrderName | Unset = UNSET,
        ageing: float | Unset | None = UNSET,
        actor: str = "",  # noqa: ARG002 - the server knows who asks
    ) -> Lane:
        said = {
            "capacity": capacity,
            "max_depth": max_depth,
            "rate": rate,
            "order": order,
            "ageing": ageing,
        }
        body = {name: value for name, value in said.items() if value is not UNSET}
        return (await self._link.send("PATCH", _lane(name), SeenLane, body)).as_lane()

    async def pause_lane(
        self,
        name: str,
        *,
        for_: timedelta | None = None,
        reason: str | None = None,
        actor: str = "",  # noqa: ARG002 - the server knows who asks
    ) -> Lane:
        body = {**_for(for_), **({} if reason is None else {"reason": reason})}
        return (await self._link.send("POST", _lane(name, "pause"), SeenLane, body)).as_lane()

    async def resume_lane(self, name: str, *, actor: str = "") -> Lane:  # noqa: ARG002 - the server knows who asks
        return (await self._link.send("POST", _lane(name, "resume"), SeenLane)).as_lane()

    async def pause(self, *, for_: timedelta | None = None, actor: str = "") -> None:  # noqa: ARG002 - the server knows who asks
        await self._link.send("POST", "/api/queue/pause", object, _for(for_))

    async def resume(self, *, actor: str = "") -> None:  # noqa: ARG002 - the server knows who asks
        await self._link.send("POST", "/api/queue/resume", object)

    async def limit_key(
        self,
        pattern: str,
        limit: int | None = 1,
        *,
        rate: Rate | None = None,
        actor: str = "",  # noqa: ARG002 - the server knows who asks
    ) -> None:
        path = f"/api/keys/rules{below(pattern)}"
        if limit is not None:
            await self._link.send("PUT", path, KeyRule, {"limit": limit, "rate": rate})
            return
        if rate is not None:
            raise InvalidOption("a rule has a limit: name one beside the rate")
        if any(rule.pattern == pattern for rule in await self.key_rules()):
            await self._link.send("DELETE", path, object)

    async def prune(
        self,
        *,
        dry_run: bool = False,
        older_than: timedelta | None = None,
        actor: str = "",  # noqa: ARG002 - the server knows who asks
        told: Callable[[int], None] = lambda _: None,
    ) -> Pruned:
        """The server answers when all has gone, however long that takes."""
        if older_than is not None:
            raise InvalidOption(
                "a server keeps tasks for as long as its application says: leave --older-than out"
            )
        body = {"dry_run": dry_run}
        gone = await self._link.send("POST", "/api/prune", Pruned, body, patience=None)
        told(gone.tasks)
        return gone

    # --- periodic tasks ---

    async def set_cron(
        self, name: str, schedule: str, kind: str, payload: str, *, timezone: str, catch_up: str
    ) -> None:
        body = {
            "schedule": schedule,
            "kind": kind,
            "params": _params(kind, payload),
            "timezone": timezone,
            "catch_up": catch_up,
        }
        await self._link.send("PUT", _cron(name), SeenCron, body)

    async def pause_cron(self, name: str, *, actor: str = "") -> None:  # noqa: ARG002 - the server knows who asks
        await self._link.send("POST", _cron(name, "pause"), SeenCron)

    async def resume_cron(self, name: str, *, actor: str = "") -> None:  # noqa: ARG002 - the server knows who asks
        await self._link.send("POST", _cron(name, "resume"), SeenCron)

    async def drop_cron(self, name: str, *, actor: str = "") -> None:  # noqa: ARG002 - the server knows who asks
        await self._link.send("DELETE", _cron(name), object)


def _lane(name: str, *more: str) -> str:
    return f"/api/lanes{below(name, *more)}"


def _cron(name: str, *more: str) -> str:
    return f"/api/crons{below(name, *more)}"


def _params(kind: str, payload: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise InvalidArguments(f"task {kind}: {error}") from None


def _for(span: timedelta | None) -> dict[str, float]:
    return {} if span is None else {"for": span.total_seconds()}
