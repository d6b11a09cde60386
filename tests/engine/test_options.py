"""What may be said beside the arguments."""

from __future__ import annotations

import pytest

from taskyard import Yard
from taskyard.domain.errors import InvalidOption


async def test_options_add_up(yard: Yard) -> None:
    @yard.task()
    async def work() -> None: ...

    urgent = work.options(priority=1, key="a", retries=0)
    new = urgent.options(key="b", delay=5).new()
    assert (new.priority, new.keys, new.max_charged, new.delay) == (1, ("b",), 1, 5)
    assert (urgent.new().keys, urgent.new().delay) == (("a",), None)
    assert work.new().priority == 5


async def test_a_single_word_is_no_list(yard: Yard) -> None:
    @yard.task()
    async def work() -> None: ...

    for wrong in ({"keys": "account"}, {"requires": "gpu"}):
        with pytest.raises(InvalidOption, match="takes a list of names"):
            work.options(**wrong)  # type: ignore[arg-type]


async def test_a_result_type_json_cannot_tell_apart_comes_as_plain_data(yard: Yard) -> None:
    @yard.task()
    async def either() -> list[int] | tuple[int, ...]:
        return (1, 2)

    worker = yard.worker()
    await worker.start()
    assert await (await either.enqueue()).result(20) == [1, 2]
