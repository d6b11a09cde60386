from __future__ import annotations

import random

import pytest

from bench.speed.ratio import Ratio, bound_rank, lower_bound, ratio_of


@pytest.mark.parametrize(
    ("rounds", "rank"), [(0, 0), (1, 0), (3, 0), (4, 1), (7, 2), (10, 3), (11, 3), (20, 7)]
)
def test_the_bound_is_the_largest_rank_that_errs_in_at_most_a_tenth(rounds: int, rank: int) -> None:
    assert bound_rank(rounds) == rank


def test_of_ten_ratios_the_third_smallest_is_the_bound() -> None:
    ratios = [9.0, 1.0, 5.0, 3.0, 2.0, 8.0, 7.0, 6.0, 4.0, 10.0]

    assert lower_bound(ratios) == 3.0
    assert lower_bound(ratios[:3]) is None


def test_the_bound_holds_whatever_the_noise_looks_like() -> None:
    """A machine that is busy now and then: a long tail to one side, the median is 2."""
    chance = random.Random(7)
    runs = 4_000
    above = 0
    for _ in range(runs):
        ratios = [
            2 * chance.paretovariate(1) / 2 for _ in range(10)
        ]  # the median of Pareto(1) is 2
        bound = lower_bound(ratios)
        assert bound is not None
        above += bound > 2
    assert above / runs < 0.1


def test_rounds_are_paired_and_those_that_lack_one_side_left_out() -> None:
    ratio = ratio_of([10.0, 40.0, None, 90.0], [5.0, 10.0, 7.0, None])

    assert ratio == Ratio(median=3.0, lower=None, rounds=2)


def test_where_less_is_better_the_ratio_is_theirs_to_ours() -> None:
    ratio = ratio_of([1.0], [4.0], less_is_better=True)

    assert ratio is not None
    assert ratio.median == 4.0


def test_without_a_common_round_there_is_no_ratio() -> None:
    assert ratio_of([1.0, None], [None, 2.0]) is None
