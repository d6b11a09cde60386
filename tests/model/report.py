"""The tables of docs/lease_model.md: `python -m tests.model.report` prints them.

With `--wide` it also counts the one search that is too long for every test run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator

from tests.model.explore import Search, explore
from tests.model.variants import CONFIGS, VARIANTS, Variant
from tests.model.world import Config

LONG = Config(key_limit=2, capacity=2)


def count_row(config: Config, search: Search) -> str:
    return (
        f"| {config} | {config.attempts} | {len(search.worlds):,} | {search.steps:,} "
        f"| {search.depth} |"
    )


def variant_row(variant: Variant) -> str:
    first, *others = variant.caught_by
    violation = variant.caught(first)
    assert violation is not None, f"{variant.name} is not caught by {first}"
    trace = " → ".join(violation.trace)
    return f"| {variant.name} | {first} | {trace}: {violation.text} | {', '.join(others)} |"


def count_rows(configs: Iterable[Config]) -> Iterator[str]:
    for config in configs:
        started = time.perf_counter()
        search = explore(config)
        assert search.violation is None, search.violation
        yield count_row(config, search)
        sys.stderr.write(f"{config}: {time.perf_counter() - started:.1f} s\n")


def main(arguments: list[str]) -> None:
    for row in count_rows([*CONFIGS, LONG] if "--wide" in arguments else CONFIGS):
        sys.stdout.write(f"{row}\n")
    for variant in VARIANTS:
        sys.stdout.write(f"{variant_row(variant)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
