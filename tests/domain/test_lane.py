from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.domain.errors import InvalidOption
from taskyard.domain.lane import DEFAULT_KEY_LIMIT, KeyRule, KeyRules, LaneChange
from taskyard.domain.node import may_serve


@pytest.mark.spec("engine-3")
def test_a_key_without_a_rule_has_limit_1() -> None:
    assert KeyRules().limit("anything") == DEFAULT_KEY_LIMIT == 1


@pytest.mark.spec("engine-3")
def test_the_exact_rule_wins_then_the_longest_prefix() -> None:
    rules = KeyRules(
        [
            KeyRule("*", 9),
            KeyRule("host:*", 4),
            KeyRule("host:eu:*", 2),
            KeyRule("host:eu:big", 7),
            KeyRule("closed", 0),
        ]
    )

    assert rules.limit("host:eu:big") == 7
    assert rules.limit("host:eu:small") == 2
    assert rules.limit("host:us") == 4
    assert rules.limit("host:") == 4
    assert rules.limit("host") == 9
    assert rules.limit("closed") == 0


@pytest.mark.spec("engine-3")
@given(
    rules=st.dictionaries(
        st.text("ab", max_size=3).map(lambda prefix: prefix + "*")
        | st.text("ab", min_size=1, max_size=3),
        st.integers(0, 9),
    ),
    key=st.text("ab", min_size=1, max_size=4),
)
def test_a_limit_is_that_of_the_closest_rule(rules: dict[str, int], key: str) -> None:
    prefixes = [key, *(key[:n] + "*" for n in range(len(key), -1, -1))]
    closest = next((rules[pattern] for pattern in prefixes if pattern in rules), 1)

    assert KeyRules(KeyRule(p, n) for p, n in rules.items()).limit(key) == closest


@pytest.mark.spec("engine-3")
@pytest.mark.parametrize("rule", [KeyRule("k", 0), KeyRule("host:*", 4), KeyRule("*", 1)])
def test_a_sound_rule_is_let_through(rule: KeyRule) -> None:
    rule.check()


@pytest.mark.spec("engine-3")
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (KeyRule("k", -1), "limit must be 0 or more, not -1"),
        (KeyRule("", 1), "needs a name"),
        (KeyRule("a*b", 1), "only stand at the end"),
        (KeyRule("**", 1), "only stand at the end"),
    ],
)
def test_a_wrong_rule_is_refused(rule: KeyRule, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        rule.check()


@pytest.mark.spec("engine-3")
def test_a_capacity_is_none_or_0_or_more() -> None:
    for capacity in (None, 0, 5, msgspec.UNSET):
        LaneChange(capacity=capacity).check()

    with pytest.raises(InvalidOption, match="not -1"):
        LaneChange(capacity=-1).check()


@pytest.mark.spec("engine-4")
def test_a_node_serves_a_route_if_it_has_the_kind_and_all_that_is_required() -> None:
    kinds, capabilities = frozenset({"work"}), frozenset({"gpu", "fast"})

    assert may_serve(kinds, capabilities, "work", ())
    assert may_serve(kinds, capabilities, "work", ("fast", "gpu"))
    assert not may_serve(kinds, capabilities, "work", ("gpu", "tpu"))
    assert not may_serve(kinds, capabilities, "mail", ())
