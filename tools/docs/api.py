"""The pages about what Python programs import: signatures, docstrings, fields."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_overloads

import msgspec

import taskyard
from taskyard.server.app import Server, create_app
from taskyard.server.config import ServerConfig
from taskyard.trial.trial import Ran, SyncTrial, Testing, Trial
from tools.docs import comments
from tools.docs.markdown import code, filled, generated, linked, table

WIDTH = 76  # what fits beside the two columns of a page

PAGES: Mapping[str, tuple[str, str, tuple[Any, ...]]] = {
    "yard": (
        "The yard",
        "The one object a program holds: it declares kinds, and asks the store.",
        (taskyard.Yard, taskyard.SyncYard),
    ),
    "kinds": (
        "Kinds and handles",
        "What `@yard.task` makes of a function, and what enqueue answers.",
        (
            taskyard.TaskKind, taskyard.SyncKind, taskyard.Handle, taskyard.SyncHandle,
            taskyard.Flow, taskyard.chain, taskyard.gather,
        ),
    ),
    "bodies": (
        "Inside a body",
        "What a handler is given, and what it may raise or return to decide about its task.",
        (
            taskyard.Context, taskyard.Resource, taskyard.Snooze, taskyard.Retry, taskyard.Fatal,
            taskyard.Cancelled, taskyard.Worker,
        ),
    ),
    "values": (
        "Tasks and rules",
        "A task, and its rules. `Instant`: microseconds since 1970; `FOREVER`: the longest age.",
        (
            taskyard.Task, taskyard.NewTask, taskyard.TaskQuery, taskyard.Page, taskyard.TaskLine,
            taskyard.LogLine, taskyard.State, taskyard.Reason,
            taskyard.Enqueued, taskyard.Duplicate, taskyard.Refused, taskyard.Ending,
            taskyard.RetryPolicy, taskyard.Rate, taskyard.Retention, taskyard.Keep,
            taskyard.Advice,
        ),
    ),
    "testing": (
        "Testing",
        "What `yard.testing()` gives; [the guide](../guides/testing.md) shows how it is used.",
        (Testing, Trial, SyncTrial, Ran),
    ),
    "mounting": (
        "The server in your application",
        "[The guide](../guides/server.md) has the rest.",
        (create_app, ServerConfig, Server),
    ),
}  # fmt: skip

STARS: Mapping[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}

# Nobody calls these by themselves: a yard, a kind or a worker makes them.
MADE_FOR_YOU = frozenset(
    {
        "SyncYard", "TaskKind", "SyncKind", "Handle", "SyncHandle", "Context", "Worker", "Task",
        "Page", "TaskLine", "LogLine", "Resource", "Enqueued", "Duplicate", "Refused", "Ending",
        "Testing", "Trial", "SyncTrial", "Ran", "Server",
    }
)  # fmt: skip

# What the parts of the engine say to each other; nothing for users.
INSIDE = {
    "Context": {"hold", "ask_to_stop", "ask_to_pause", "awaited"},
    "Handle": {"at"},
    "Rate": {"said", "interval"},
    "Resource": {"make"},
    "Retention": {"audit_age", "statistics_age"},
    "RetryPolicy": {"max_charged"},
    "Server": {"feed", "keyring", "litestar", "metrics", "oldest", "sampler", "streams"},
    "Trial": {"close"},
    "Worker": {
        "bodies", "overdue", "free_slots", "last_taken", "serves", "lease", "steady_for",
        "lease_seconds", "dependencies", "report", "checkpoint", "keep_line", "enqueue",
    },
}  # fmt: skip

# Each has the verbs of another class, told there, for callers that block.
TWINS = (taskyard.SyncYard, taskyard.SyncKind, taskyard.SyncHandle, SyncTrial)


def pages() -> Iterator[tuple[str, str]]:
    """The name of each page, and its text."""
    for name, (title, about, things) in PAGES.items():
        lines = [f"# {title}", "", about, "", generated("docstrings and signatures"), ""]
        for thing in things:
            lines += described(thing)
        yield name, "\n".join(lines) + "\n"


def described(thing: Any) -> Iterator[str]:
    """A class or a function, with a heading of its own."""
    yield from (f"## `{thing.__name__}`", "")
    if not isinstance(thing, type):
        yield from _signed(thing.__name__, thing)
        return
    if issubclass(thing, enum.Enum):
        yield from _documented(thing)
        yield from _members(thing)
        return
    made_by_users = thing.__name__ not in MADE_FOR_YOU
    if made_by_users and issubclass(thing, Exception) and "__init__" not in vars(thing):
        yield from _block([f"{thing.__name__}(message: str)"])
    elif made_by_users and not issubclass(thing, msgspec.Struct):  # whose fields are told below
        yield from _block([_signature(thing.__name__, thing, leave_out_first=False)])
    yield from _documented(thing)
    if made_by_users and "__init__" in vars(thing):
        yield from _documented(thing.__init__)
    yield from _fields(thing)
    if thing in TWINS:
        yield from _block(_signature(*one, leave_out_first=True) for one in _methods(thing))
        return
    for name, member in _public(thing):
        yield from (f"### `{name}`", "")
        if isinstance(member, property):
            yield from _property(name, member)
        else:
            yield from _signed(name, member)


def _methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    return ((name, one) for name, one in _public(cls) if inspect.isfunction(one))


def members(cls: type) -> list[str]:
    """The names of what is told of a class, beside its fields."""
    return [name for name, _ in _public(cls)]


def _public(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties in the order of the source, those of bases after its own."""
    seen: set[str] = set()
    hidden = INSIDE.get(cls.__name__, set())
    value = issubclass(cls, msgspec.Struct)  # what it computes is for the engine
    for base in cls.__mro__:
        if not base.__module__.startswith("taskyard"):
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen or name in hidden:
                continue
            plain = isinstance(member, staticmethod | classmethod)
            function = member.__func__ if plain else member
            if (inspect.isfunction(function) and not value) or isinstance(function, property):
                seen.add(name)
                yield name, member


def _signed(name: str, member: Any) -> Iterator[str]:
    static = isinstance(member, staticmethod)
    function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
    method = "." in function.__qualname__ and not static
    written = get_overloads(function) or [function]
    yield from _block(_signature(name, one, leave_out_first=method) for one in written)
    yield from _documented(function)


def _property(name: str, member: property) -> Iterator[str]:
    assert member.fget is not None
    kind = inspect.signature(member.fget).return_annotation
    yield from _block([f"{name}: {_said(kind)}"])
    yield from _documented(member)


def _fields(cls: type) -> Iterator[str]:
    told: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("taskyard"):
            told |= comments.of_attributes(base) | (
                comments.of_fields(base) if issubclass(base, msgspec.Struct) else {}
            )
    if issubclass(cls, msgspec.Struct):
        fields = msgspec.structs.fields(cls)
        kinds = {name: kind for b in reversed(cls.__mro__) for name, kind in _hints(b).items()}
        made = cls.__name__ in MADE_FOR_YOU  # with every field
        rows = [
            (code(f.name), code(_said(kinds[f.name])), "" if made else _default(f), told[f.name])
            for f in fields
        ]
        yield from table(*filled(("field", "type", "default", ""), rows))
        return
    told = {name: t for name, t in told.items() if name not in INSIDE.get(cls.__name__, ())}
    if any(told.values()):
        yield from table(("attribute", ""), [(code(name), text) for name, text in told.items()])
    elif told:
        yield from (f"Attributes: {', '.join(map(code, told))}.", "")


def _hints(cls: type) -> dict[str, Any]:
    return dict(vars(cls).get("__annotations__", {}))


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return "made anew" if inspect.isfunction(field.default_factory) else code(
            repr(field.default_factory())
        )  # fmt: skip
    return "" if field.default is msgspec.NODEFAULT else code(_value(field.default))


def _members(cls: type[enum.Enum]) -> Iterator[str]:
    told = comments.of_fields(cls)
    rows = [(code(one.name), code(str(one.value)), told.get(one.name, "")) for one in cls]
    yield from table(*filled(("member", "value", ""), rows))


def _signature(name: str, thing: Callable[..., Any], *, leave_out_first: bool) -> str:
    """As it is called: without `self`, on one line if it fits."""
    signature = inspect.signature(thing)
    parts = _parameters(list(signature.parameters.values())[1 if leave_out_first else 0 :])
    awaited = "async " if inspect.iscoroutinefunction(thing) else ""
    returns = "" if isinstance(thing, type) else f" -> {_said(signature.return_annotation)}"
    line = f"{awaited}{name}({', '.join(parts)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{awaited}{name}(", *(f"    {part}," for part in parts), f"){returns}"])


def _parameters(parameters: Sequence[inspect.Parameter]) -> list[str]:
    parts: list[str] = []
    starred = False
    for one in parameters:
        if one.kind is one.VAR_POSITIONAL:
            starred = True
        if one.kind is one.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        stars = STARS.get(one.kind, "")
        kind = "" if one.annotation is one.empty else f": {_said(one.annotation)}"
        equals = " = " if kind else "="
        default = "" if one.default is one.empty else f"{equals}{_value(one.default)}"
        parts.append(f"{stars}{one.name}{kind}{default}")
    return parts


def _said(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return "None"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _value(default: Any) -> str:
    if isinstance(default, enum.Enum):
        return f"{type(default).__name__}.{default.name}"
    if isinstance(default, msgspec.Struct):
        return _built(default)
    return "…" if default is msgspec.UNSET or inspect.isfunction(default) else repr(default)


def _built(value: msgspec.Struct) -> str:
    """Only what is not as it would be anyway."""
    fields = msgspec.structs.fields(type(value))
    said = [f for f in fields if getattr(value, f.name) != f.default]
    return f"{type(value).__name__}({', '.join(_given(f.name, value) for f in said)})"


def _given(name: str, value: msgspec.Struct) -> str:
    return f"{name}={getattr(value, name)!r}"


def _block(lines: Iterable[str]) -> Iterator[str]:
    yield from ("```python", *lines, "```", "")


def _documented(thing: Any) -> Iterator[str]:
    if thing.__doc__:
        yield from (linked(inspect.cleandoc(thing.__doc__)), "")
