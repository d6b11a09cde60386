"""How kinds have fared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from taskyard import Yard
from taskyard.domain.errors import InvalidOption
from taskyard.domain.statistics import RUN, RUN_SUM, Count, bucket_of

pytestmark = pytest.mark.spec("lifecycle-16")


async def test_counts_and_times_by_kind(yard: Yard) -> None:
    await yard.store.tally(
        [
            Count("scan", "default", "completed", 3),
            Count("scan", "slow", "failed", 1),
            Count("scan", "default", RUN, 4, bucket_of(2.0)),
            Count("scan", "default", RUN_SUM, 8_000_000),
            Count("check", "default", "completed", 1),
        ]
    )
    check, scan = await yard.statistics()
    assert (check.kind, check.attempts, check.success) == ("check", 1, 1.0)
    assert (scan.kind, scan.attempts, scan.success) == ("scan", 4, 0.75)
    assert scan.run.mean == 2.0
    assert scan.run.p95 == pytest.approx(2.0, rel=0.1)


async def test_since_when(yard: Yard) -> None:
    await yard.store.tally([Count("scan", "default", "completed", 1)])
    now = datetime.now(UTC)
    assert len(await yard.statistics(since=now - timedelta(hours=1))) == 1
    assert len(await yard.statistics(since=timedelta(hours=1))) == 1
    assert await yard.statistics(since=now + timedelta(hours=2)) == []
    with pytest.raises(InvalidOption, match="has no time zone"):
        await yard.statistics(since=datetime(2030, 1, 1))  # noqa: DTZ001
