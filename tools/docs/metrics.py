"""The page of metrics: what `/metrics` of a yard that has run a task answers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from taskyard import Yard
from taskyard.server.app import create_app
from taskyard.server.config import ServerConfig
from tools.docs.markdown import code, generated, table

HIDDEN_LABELS = {"le"}  # of the buckets of a histogram


class Figure(msgspec.Struct, frozen=True):
    """`name` is what is asked for in a query, without the suffixes of a histogram."""

    name: str
    kind: str
    labels: Sequence[str]
    about: str


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("# Metrics", "")
    yield generated("the answer of `/metrics`")
    yield "[The guide](../guides/server.md#metrics) says how to read them."
    yield "A histogram has the usual `_bucket`, `_sum` and `_count`."
    yield from table(
        ("metric", "type", "labels", ""),
        [
            (code(one.name), one.kind, ", ".join(map(code, one.labels)), one.about)
            for one in figures()
        ],
    )


def figures() -> list[Figure]:
    """Every one of them, by name. `_created` is the library's own."""
    text = asyncio.run(_answer())
    found = []
    for family in text_string_to_metric_families(text):
        samples = [one for one in family.samples if not one.name.endswith("_created")]
        if not samples:
            continue
        labels = sorted({name for one in samples for name in one.labels} - HIDDEN_LABELS)
        name = samples[0].name if family.type == "counter" else family.name
        found.append(Figure(name, family.type, labels, family.documentation))
    return sorted(found, key=lambda one: one.name)


async def _answer() -> str:
    """Of a small yard in a folder of its own, so that every figure has a sample with its labels."""
    with tempfile.TemporaryDirectory() as folder:
        yard = Yard(f"sqlite:///{folder}/yard.db")

        @yard.task(lane="docs")
        async def nothing() -> None: ...

        server = create_app(yard, ServerConfig(folder=Path(folder) / "server"))
        async with yard, server:
            await server.metrics.text()  # counts begin here
            await yard.set_lane("docs", capacity=1)
            worker = yard.worker()
            await worker.start()
            await (await nothing.enqueue()).result(timeout=60)
            await worker.stop()  # it hands in its figures
            await yard.worker().start()
            await server.sampler.sample()
            return (await server.metrics.text()).decode()
