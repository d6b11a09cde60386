"""Whether the server is alive, and whether its store answers."""

from __future__ import annotations

import asyncio

import msgspec
from litestar import get

from taskyard.domain.errors import StoreError
from taskyard.server.asks import TheYard, anybody
from taskyard.server.problems import Refusal

ALIVE = "/healthz"
PATIENCE = 5.0  # seconds


class Health(msgspec.Struct, frozen=True):
    status: str


@get(ALIVE, opt=anybody, tags=["health"], security=[], summary="Whether it is alive")
async def healthz() -> Health:
    return Health("alive")


@get("/readyz", opt=anybody, tags=["health"], security=[], summary="Whether the store answers")
async def readyz(yard: TheYard) -> Health:
    try:
        async with asyncio.timeout(PATIENCE):
            await yard.store.now()
    except (StoreError, TimeoutError):
        raise Refusal(503, "not_ready", "the store does not answer") from None
    return Health("ready")
