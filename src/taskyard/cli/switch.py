"""`taskyard pause` and `taskyard resume`: the whole yard."""

from __future__ import annotations

from rich.text import Text

from taskyard.cli.machine import print_json
from taskyard.cli.render import show
from taskyard.cli.target import App, For, Json, Url, Where, actor, ask
from taskyard.settings import read_age
from taskyard.yard import Yard


def pause(for_: For = None, url: Url = None, app: App = None, as_json: Json = False) -> None:
    """Start nothing new in any lane.

    What runs goes on, and enqueue still works.
    """

    span = None if for_ is None else read_age(for_)

    async def change(yard: Yard) -> None:
        await yard.pause(for_=span, actor=actor())

    ask(Where(url, app), change)
    _tell(paused=True, as_json=as_json)


def resume(url: Url = None, app: App = None, as_json: Json = False) -> None:
    """Let a paused yard go on; lanes that were paused stay so."""

    async def change(yard: Yard) -> None:
        await yard.resume(actor=actor())

    ask(Where(url, app), change)
    _tell(paused=False, as_json=as_json)


def _tell(*, paused: bool, as_json: bool) -> None:
    if as_json:
        print_json({"paused": paused})
    else:
        show(Text("the yard is paused" if paused else "the yard goes on"))
