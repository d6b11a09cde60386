"""`taskyard config`: every setting, and where it came from."""

from __future__ import annotations

import msgspec
from rich.table import Column

from taskyard.cli.machine import print_json
from taskyard.cli.render import cell, fixed, show, table
from taskyard.cli.target import Json
from taskyard.settings import HIDDEN, SECRET, Setting, load
from taskyard.store.passwords import without_secrets


def config(as_json: Json = False) -> None:
    """Every setting, and where it came from."""
    loaded = load()
    _ = loaded.retention  # says what is wrong with it
    if as_json:
        print_json(
            [
                {"name": each.name, "value": _value(each), "source": each.source}
                for each in loaded.each
            ]
        )
        return
    rows = [
        (
            cell(each.name),
            cell(_told(each)),
            cell(each.source, "dim" if each.source == "default" else "green"),
        )
        for each in loaded.each
    ]
    show(table(fixed("setting"), fixed("value"), Column("from"), rows=rows))


def _value(setting: Setting) -> object:
    value = msgspec.to_builtins(setting.value)
    if setting.name in SECRET and value is not None:
        return HIDDEN
    return without_secrets(value) if setting.name == "url" else value


def _told(setting: Setting) -> str:
    value = _value(setting)
    match value:
        case None:
            return "-"
        case list():
            return ", ".join(value) or "-"
        case dict():
            return ", ".join(value) or "-"
        case _:
            return str(value)
