"""Enqueues in a transaction of the caller's, through the caller's connection."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import msgspec

from taskyard.domain.errors import StoreUnavailable
from taskyard.domain.task import Enqueue, NewTask
from taskyard.store.postgres.adapters.choose import awaiting, blocking
from taskyard.store.postgres.enqueue import TYPES, enqueue_answers, enqueue_args
from taskyard.store.postgres.options import Options
from taskyard.store.postgres.queries import in_namespace, schema_name

# The types are said and the answer is one text, because drivers differ in what they make of both.
_ARGS = ", ".join(f"${at}::{kind}" for at, kind in enumerate(TYPES, 1))
_ENQUEUE = f"SELECT row_to_json(e)::text FROM taskyard.enqueue({_ARGS}) AS e"  # noqa: S608 - types are ours
_KNOWN = """SELECT count(*) FROM pg_catalog.pg_proc AS p
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = $1::text AND p.proname = 'enqueue' AND p.pronargs = $2::integer"""

Steps: TypeAlias = "Generator[tuple[str, Sequence[object]], Any, list[Enqueue]]"


class Join:
    """What is asked of a connection, whether it blocks or is awaited."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._known = False

    async def enqueue(
        self, connection: object, clock: int, tasks: Sequence[NewTask]
    ) -> list[Enqueue]:
        value = awaiting(connection)
        if value is None:
            return self.enqueue_sync(connection, clock, tasks)
        steps = self._steps(clock, tasks)
        answer: Any = None
        while True:
            try:
                statement, args = steps.send(answer)
            except StopIteration as done:
                return list(done.value)
            answer = await value(connection, statement, args)

    def enqueue_sync(
        self, connection: object, clock: int, tasks: Sequence[NewTask]
    ) -> list[Enqueue]:
        value = blocking(connection)
        steps = self._steps(clock, tasks)
        answer: Any = None
        while True:
            try:
                statement, args = steps.send(answer)
            except StopIteration as done:
                return list(done.value)
            answer = value(connection, statement, args)

    def _steps(self, clock: int, tasks: Sequence[NewTask]) -> Steps:
        for task in tasks:
            task.check()
        if not tasks:
            return []
        if not self._known:
            # Asked first, because a statement that fails would take the transaction with it.
            schema = schema_name(self._options.namespace)
            if not (yield _KNOWN, (schema, len(TYPES))):
                raise StoreUnavailable(
                    f"this connection finds no yard of this version of Taskyard ({schema}); open "
                    f"the yard at {self._options.place} once before, or run: taskyard migrate"
                )
            self._known = True
        args = enqueue_args(clock, tasks, joined=True)
        text = yield in_namespace(_ENQUEUE, self._options.namespace), args
        return enqueue_answers(tasks, msgspec.json.decode(text))
