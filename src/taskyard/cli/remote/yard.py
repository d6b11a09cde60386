"""The yard of a server, as commands know a yard. Who acts is whom the token names."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from taskyard.cli.remote.link import Link, Token, below
from taskyard.cli.remote.wire import (
    Acted,
    AuditPage,
    Created,
    Crons,
    Glance,
    Keys,
    Kinds,
    Lanes,
    Nodes,
    SeenCron,
    SeenLane,
    SeenTask,
    Stats,
    TaskPage,
)
from taskyard.domain.clock import Instant
from taskyard.domain.cron import CronEntry
from taskyard.domain.errors import (
    ConfigurationError,
    InvalidArguments,
    InvalidOption,
    NotFound,
    TaskRefused,
)
from taskyard.domain.explain import Explanation
from taskyard.domain.lane import Audited, Key, KeyRule, Lane
from taskyard.domain.node import Node
from taskyard.domain.rate import Rate
from taskyard.domain.retention import Pruned
from taskyard.domain.state import TERMINAL, State
from taskyard.domain.statistics import KindStatistics
from taskyard.domain.task import Duplicate, Enqueued, Task, TaskQuery
from taskyard.settings import TOKEN_VARIABLE
from taskyard.store.port import Cancellation, Ending, Pausing
from taskyard.verbs.lanes import UNSET, OrderName, Unset

PAGE = 500  # what a server gives at most
LOOK_AGAIN = (0.05, 1.0)  # seconds between two looks at a task that is waited for: first, longest


def remote_yard(url: str, token_file: str | None) -> RemoteYard:
    return RemoteYard(Link(url, _token(token_file)))


class RemoteYard:
    """Its verbs are those of a `Yard`; the actor that is handed over is not used."""

    def __init__(self, link: Link) -> None:
        self._link = link

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

    # --- looking ---

    async def now(self) -> Instant:
        return (await self._glance()).now

    async def is_paused(self) -> bool:
        return (await self._glance()).paused

    async def counts(self) -> Mapping[State, int]:
        return (await self._glance()).counts

    async def _glance(self) -> Glance:
        return await self._link.get("/api/yard", Glance)

    async def get(self, task_id: str) -> Task:
        seen = await self._link.get(_task(task_id), SeenTask)
        return seen.as_task()

    async def find(self, query: TaskQuery | None = None) -> list[Task]:
        """Without payloads and results; `get` has them."""
        asked = query or TaskQuery()
        if asked.limit < 1:
            raise InvalidOption(f"limit must be 1 or more, not {asked.limit}")
        found: list[Task] = []
        cursor = None if asked.after is None else _cursor(asked.after)
        while len(found) < asked.limit:
            page = await self._link.get(
                "/api/tasks",
                TaskPage,
                state=asked.state,
                kind=asked.kind,
                lane=asked.lane,
                key=asked.key,
                limit=min(PAGE, asked.limit - len(found)),
                cursor=cursor,
            )
            found += [seen.as_task() for seen in page.items]
            cursor = page.next
            if cursor is None:
                break
        return found

    async def explain(self, task_id: str) -> Explanation:
        return await self._link.get(_task(task_id, "explain"), Explanation)

    async def ending(self, task_id: str, timeout: float | None) -> Ending | None:
        """Looks again and again, less and less often."""
        pause, longest = LOOK_AGAIN
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            task = await self.get(task_id)
            if task.state in TERMINAL:
                return Ending(task.id, task.state, task.result, task.error)
            left = longest if until is None else until - time.monotonic()
            if left <= 0:
                return None
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, longest)

    async def lanes(self) -> list[Lane]:
        return [lane.as_lane() for lane in (await self._link.get("/api/lanes", Lanes)).items]

    async def nodes(self) -> list[Node]:
        return [node.as_node() for node in (await self._link.get("/api/nodes", Nodes)).items]

    async def keys(self, limit: int = 100) -> list[Key]:
        return (await self._link.get("/api/keys", Keys, limit=limit)).items

    async def key_rules(self) -> list[KeyRule]:
        return (await self._link.get("/api/keys", Keys, limit=1)).rules

    async def crons(self) -> list[CronEntry]:
        return [cron.as_entry() for cron in (await self._link.get("/api/crons", Crons)).items]

    async def statistics(self) -> list[KindStatistics]:
        return (await self._link.get("/api/stats", Stats)).kinds

    async def audit(self, *, limit: int = 100, before: int | None = None) -> list[Audited]:
        found: list[Audited] = []
        while len(found) < limit:
            wanted = min(PAGE, limit - len(found))
            page = await self._link.get("/api/audit", AuditPage, limit=wanted, before=before)
            found += [line.as_audited() for line in page.items]
            before = page.next
            if before is None:
                break
        return found

    async def parameters(self, kind: str) -> dict[str, Any]:
        """The types of a kind's parameters, as far as JSON tells them apart."""
        kinds = (await self._link.get("/api/kinds", Kinds)).items
        schema = next((one.parameters for one in kinds if one.name == kind), {})
        properties = schema.get("properties", {})
        return {name: _type(parameter) for name, parameter in properties.items()}

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
        return await self._link.send("POST", _task(task_id, action), Acted, body)

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
        actor: str = "",  # noqa: ARG002
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
        actor: str = "",  # noqa: ARG002
    ) -> Lane:
        body = {**_for(for_), **({} if reason is None else {"reason": reason})}
        return (await self._link.send("POST", _lane(name, "pause"), SeenLane, body)).as_lane()

    async def resume_lane(self, name: str, *, actor: str = "") -> Lane:  # noqa: ARG002
        return (await self._link.send("POST", _lane(name, "resume"), SeenLane)).as_lane()

    async def pause(self, *, for_: timedelta | None = None, actor: str = "") -> None:  # noqa: ARG002
        await self._link.send("POST", "/api/queue/pause", object, _for(for_))

    async def resume(self, *, actor: str = "") -> None:  # noqa: ARG002
        await self._link.send("POST", "/api/queue/resume", object)

    async def limit_key(
        self,
        pattern: str,
        limit: int | None = 1,
        *,
        rate: Rate | None = None,
        actor: str = "",  # noqa: ARG002
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
        actor: str = "",  # noqa: ARG002
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

    async def pause_cron(self, name: str, *, actor: str = "") -> None:  # noqa: ARG002
        await self._link.send("POST", _cron(name, "pause"), SeenCron)

    async def resume_cron(self, name: str, *, actor: str = "") -> None:  # noqa: ARG002
        await self._link.send("POST", _cron(name, "resume"), SeenCron)

    async def drop_cron(self, name: str, *, actor: str = "") -> None:  # noqa: ARG002
        await self._link.send("DELETE", _cron(name), object)


def _token(file: str | None) -> Token:
    if file is None:
        text, source = os.environ.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE
        if not text:
            raise ConfigurationError(
                f"a server wants a token: set {TOKEN_VARIABLE}, or name a file with --token-file"
            )
    else:
        text, source = _read(Path(file)), file
    text = text.strip()
    if not (text.isascii() and text.isprintable()) or not text or " " in text:
        raise ConfigurationError(f"{source} holds no token")
    return Token(text, source)


def _read(file: Path) -> str:
    try:
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise ConfigurationError(f"{file} can be read by others; run: chmod 600 {file}")
        return file.read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} holds no token") from None


def _task(task_id: str, *more: str) -> str:
    if not task_id:
        raise NotFound("there is no task without an id")
    return f"/api/tasks{below(task_id, *more)}"


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


def _cursor(no: int) -> str:
    """Behind the task of this number, as the server writes it."""
    return base64.urlsafe_b64encode(f"no:{no}".encode()).decode().rstrip("=")


_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
    "array": list[Any],
    "object": dict[str, Any],
}


def _type(schema: Mapping[str, Any]) -> Any:
    """What tells a text from other JSON; the server checks the rest."""
    if "anyOf" in schema:
        kinds = [_type(one) for one in schema["anyOf"]]
        found = kinds[0]
        for kind in kinds[1:]:
            found = Any if Any in (found, kind) else found | kind
        return found
    if "enum" in schema and all(isinstance(value, str) for value in schema["enum"]):
        return str
    return _TYPES.get(schema.get("type", ""), Any)
