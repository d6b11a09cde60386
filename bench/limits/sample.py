"""What an enqueue of Taskyard leaves in tables, found out by doing it.

The rows are read after an enqueue of three tasks, so they are the right ones whatever the tables
look like. What is alike in all three is a constant, an id becomes a new id, and what counts up
from task to task goes on counting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from taskyard import Yard

SAMPLES = 3

Row = tuple[str, ...]  # of literals of SQL
Tables = Mapping[str, Sequence[Row]]
Rows = Mapping[str, list[Row]]


@asynccontextmanager
async def sampling(url: str) -> AsyncIterator[Callable[[], Awaitable[list[str]]]]:
    """A yard that knows its kind and lane already, and what enqueues three tasks there."""
    yard = Yard(url)

    @yard.task()
    async def noop(n: int) -> None:
        pass

    async def enqueue_three() -> list[str]:
        tasks = [noop.new(1_000) for _ in range(SAMPLES)]
        await yard.enqueue(*tasks)
        return [task.id for task in tasks]

    async with yard:
        await noop.enqueue(0)
        yield enqueue_three


async def sample_rows(url: str, read: Callable[[], Awaitable[Tables]]) -> tuple[list[str], Rows]:
    """The ids of three new tasks, and the rows of each table that came with them."""
    async with sampling(url) as enqueue_three:
        before = await read()
        ids = await enqueue_three()
        after = await read()
    added = {
        table: sorted((Counter(rows) - Counter(before[table])).elements(), key=_in_order)
        for table, rows in after.items()
    }
    # A counter's row is one for all, whatever it counts.
    return ids, {table: rows for table, rows in added.items() if len(rows) == SAMPLES}


def _in_order(row: Row) -> tuple[tuple[int, str], ...]:
    """As the numbers in it have it."""
    return tuple((number(cell) or 0, cell) for cell in row)


def number(literal: str) -> int | None:
    digits = literal.strip("'")
    return int(digits) if digits.isdecimal() else None


def expressions(
    ids: Sequence[str], rows: Sequence[Row], *, n: str, new_id: str, types: Sequence[str] = ()
) -> list[str]:
    """What each column of the n-th further task is, in SQL."""
    found = []
    for at, cells in enumerate(zip(*rows, strict=True)):
        kind = f"::{types[at]}" if types else ""
        counted = [number(cell) for cell in cells]
        if len(set(cells)) == 1:
            found.append(cells[0] + kind)
        elif [cell.strip("'") for cell in cells] == list(ids):
            found.append(new_id)
        elif None not in counted and _counts_up(counted):
            found.append(f"({counted[-1]} + 1 + {n}){kind}")
        else:
            raise ValueError(f"what is this column, of three tasks: {cells}?")
    return found


def _counts_up(values: Sequence[int | None]) -> bool:
    first = values[0] or 0
    return list(values) == list(range(first, first + len(values)))
