"""Several tasks that wait for each other, enqueued in one call.

    image = fetch.new(url)
    flow = chain(image, gather(resize.new(64), resize.new(640)), publish.new())
    await yard.enqueue(*flow)

All of it is `depends_on`: nothing else runs a workflow. The ids are made here, before anything is
saved, so the same flow can be enqueued again after a lost answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import msgspec

from taskyard.domain.errors import InvalidOption
from taskyard.domain.task import NewTask


class Flow(Sequence[NewTask]):
    """Tasks in an order in which none comes before one it depends on."""

    def __init__(self, tasks: Sequence[NewTask], first: Sequence[str], last: Sequence[str]) -> None:
        self._tasks = tuple(tasks)
        self.first = tuple(first)  # ids of those that wait for nothing of this flow
        self.last = tuple(last)  # ids of those that nothing of this flow waits for

    @overload
    def __getitem__(self, place: int) -> NewTask: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[NewTask, ...]: ...

    def __getitem__(self, place: int | slice) -> NewTask | tuple[NewTask, ...]:
        return self._tasks[place]

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[NewTask]:
        return iter(self._tasks)

    def named(self, name: str) -> Flow:
        """The same with ids made of this name: whoever builds it again enqueues it once."""
        new = {task.id: f"{name}/{place}" for place, task in enumerate(self._tasks, 1)}
        return Flow(
            [
                msgspec.structs.replace(
                    task, id=new[task.id], depends_on=tuple(new.get(i, i) for i in task.depends_on)
                )
                for task in self._tasks
            ],
            [new[i] for i in self.first],
            [new[i] for i in self.last],
        )

    def after(self, ids: Sequence[str]) -> Flow:
        """The same, begun when these have ended."""
        return Flow(
            [_waiting(task, ids) if task.id in self.first else task for task in self._tasks],
            self.first,
            self.last,
        )

    def __repr__(self) -> str:
        return f"Flow({', '.join(f'{task.kind} {task.id}' for task in self._tasks)})"


Step = NewTask | Flow


def chain(*steps: Step) -> Flow:
    """One after the other: each step begins when the one before has ended.

    A step is a task or a flow. Behind several tasks (`gather`) the next step waits for all of them;
    before several, all of them wait for it.
    """
    first, *others = _flows("chain", steps)
    for flow in others:
        after = flow.after(first.last)
        first = Flow([*first, *after], first.first, after.last)
    return first


def gather(*steps: Step) -> Flow:
    """Beside each other: the flow has ended when all of them have."""
    flows = _flows("gather", steps)
    return Flow(
        [task for flow in flows for task in flow],
        [i for flow in flows for i in flow.first],
        [i for flow in flows for i in flow.last],
    )


def _flows(name: str, steps: Sequence[Step]) -> list[Flow]:
    if not steps:
        raise InvalidOption(f"{name} needs at least one task")
    flows = [
        step if isinstance(step, Flow) else Flow([step], [step.id], [step.id]) for step in steps
    ]
    ids = [task.id for flow in flows for task in flow]
    if len(set(ids)) != len(ids):
        raise InvalidOption(
            f"{name}: the same task stands there twice; make a new one for each place"
        )
    return flows


def _waiting(task: NewTask, ids: Sequence[str]) -> NewTask:
    """Behind what it waited for before, in case somebody counts on the order."""
    depends_on = tuple(dict.fromkeys((*task.depends_on, *ids)))
    return msgspec.structs.replace(task, depends_on=depends_on)
