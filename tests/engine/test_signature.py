"""Arguments are bound as Python itself would."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.domain.errors import InvalidArguments
from taskyard.engine.signature import Signature


def plain(a: Any, b: Any, c: Any = 3) -> None: ...


def named(a: Any, *, b: Any, c: Any = 3) -> None: ...


def all_optional(a: Any = 1, b: Any = 2) -> None: ...


def nothing() -> None: ...


@pytest.mark.spec("engine-32")
@given(
    function=st.sampled_from([plain, named, all_optional, nothing]),
    args=st.lists(st.integers(), max_size=4),
    kwargs=st.dictionaries(st.sampled_from("abcd"), st.integers(), max_size=4),
)
def test_arguments_are_bound_as_by_a_call(
    function: Any, args: list[int], kwargs: dict[str, int]
) -> None:
    signature = Signature("work", function)
    wanted = bound(function, args, kwargs)
    if isinstance(wanted, str):
        with pytest.raises(InvalidArguments, match=re.escape(wanted)):
            signature.encode(tuple(args), dict(kwargs))
    else:
        payload = signature.encode(tuple(args), dict(kwargs))
        assert payload == msgspec.json.encode(wanted).decode()


def bound(function: Any, args: list[int], kwargs: dict[str, int]) -> dict[str, Any] | str:
    """By name, or what is wrong with them."""
    try:
        return inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError as error:
        return str(error)
