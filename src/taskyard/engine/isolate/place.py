"""Where another process finds a kind: by import, never by pickle."""

from __future__ import annotations

import importlib
import sys

import msgspec

from taskyard.domain.errors import InvalidHandler
from taskyard.engine.registry import Kind


class Place(msgspec.Struct, frozen=True):
    module: str
    path: str  # of the declared task inside the module
    kind: str

    @staticmethod
    def of(kind: Kind) -> Place:
        function = kind.function
        return Place(function.__module__, function.__qualname__, kind.name)


def find(place: Place) -> Kind:
    """The kind as this process has it; imports its module if need be."""
    found: object = importlib.import_module(place.module)
    for name in place.path.split("."):
        found = getattr(found, name, None)
    kind = getattr(found, "kind", None)  # that of a TaskKind
    if not isinstance(kind, Kind) or kind.name != place.kind:
        raise InvalidHandler(
            f"task {place.kind} is isolated, but {place.module}.{place.path} is not it: declare "
            "the function with @yard.task(…) in the module, under its own name"
        )
    return kind


def require_importable(kind: Kind) -> None:
    """Refuse a kind that a child could not find."""
    place = Place.of(kind)
    if place.module == "__main__":
        raise InvalidHandler(
            f"task {place.kind} is isolated, but {place.path} stands in the script that is being "
            "run, which another process cannot import; move it to a module of its own"
        )
    root = place.module.partition(".")[0]
    if not any(_finds(finder, root) for finder in sys.meta_path):
        raise InvalidHandler(
            f"task {place.kind} is isolated, but there is no module {root} that another process "
            "could import; put its file where Python looks for modules"
        )
    if find(place) is not kind:
        raise InvalidHandler(
            f"task {place.kind} is isolated, but importing {place.module} gives another task of "
            "that name: is its file loaded twice?"
        )


def _finds(finder: object, root: str) -> bool:
    look = getattr(finder, "find_spec", None)
    return look is not None and look(root, None) is not None
