"""`taskyard pause` and `taskyard resume`: the whole yard."""

from __future__ import annotations

from rich.text import Text

from taskyard.cli.desk import Desk
from taskyard.cli.machine import print_json
from taskyard.cli.render import show
from taskyard.cli.target import For, Json, Where, actor, ask, located
from taskyard.settings import read_age


@located
def pause(for_: For = None, *, where: Where, as_json: Json = False) -> None:
    """Start nothing new in any lane.

    What runs goes on, and enqueue still works.
    """

    span = None if for_ is None else read_age(for_)

    async def change(yard: Desk) -> None:
        await yard.pause(for_=span, actor=actor())

    ask(where, change)
    _tell(paused=True, as_json=as_json)


@located
def resume(where: Where, as_json: Json = False) -> None:
    """Let a paused yard go on; lanes that were paused stay so."""

    async def change(yard: Desk) -> None:
        await yard.resume(actor=actor())

    ask(where, change)
    _tell(paused=False, as_json=as_json)


def _tell(*, paused: bool, as_json: bool) -> None:
    if as_json:
        print_json({"paused": paused})
    else:
        show(Text("the yard is paused" if paused else "the yard goes on"))
