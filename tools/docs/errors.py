"""The page of errors: the tree, and the stable code, HTTP status and exit code of each."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path

import taskyard
from taskyard.cli.errors import exit_code
from taskyard.domain import errors as of_domain
from taskyard.domain.errors import TaskyardError
from taskyard.server import problems
from tools.docs.markdown import code, generated, table

SERVER = Path(problems.__file__).parent
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "errors.md"
# Of the command line, for what no class of ours stands for; and what has no code of its own.
OTHERS = frozenset({"usage", "unexpected", "error"})
_ROW = re.compile(r"^\| `(\w+)` \| *(.*?) *\|$", re.MULTILINE)


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    told = words()
    yield from ("# Errors", "")
    yield generated("`taskyard.domain.errors` and the tables that map it")
    yield "A `code` is stable: programs may decide by it ([guide](../guides/errors.md))."
    yield "Those that are not in `taskyard` itself are in `taskyard.domain.errors`, and are caught"
    yield "by the one above them; those without an HTTP status are of the command line alone."
    yield ""
    yield from ("```text", *_tree(), "```", "")
    yield from table(
        ("error", "code", "HTTP", "exit code", ""),
        [
            (
                code(one.__name__),
                code(one.code),
                _status(one),
                str(_exit(one)),
                told.get(one.code, ""),
            )
            for one in classes()
        ],
    )
    yield from ("## Over HTTP", "")
    yield "An answer of 400 or more is `application/problem+json`, with these fields:"
    yield ""
    yield from (f"- {name}" for name in map(code, problems.Problem.__struct_fields__))
    yield ""
    yield "Beside the codes above, the server itself answers with these:"
    yield from table(
        ("code", "status", ""),
        [
            (code(name), ", ".join(_phrase(one) for one in sorted(statuses)), told.get(name, ""))
            for name, statuses in sorted(server_codes().items())
        ],
    )


def words() -> Mapping[str, str]:
    """What the guide says of each code, with links as they are from the folder of the reference."""
    return {
        name: text.replace("](../reference/", "](")
        for name, text in _ROW.findall(GUIDE.read_text("utf-8"))
    }


@cache
def classes() -> list[type[TaskyardError]]:
    """Every one in the package, in the order of the tree, those of the command line last."""
    for module in pkgutil.walk_packages(taskyard.__path__, "taskyard."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: list[type[TaskyardError]] = []

    def walk(one: type[TaskyardError]) -> None:
        if one.__module__.startswith("taskyard."):
            found.append(one)
            for below in one.__subclasses__():
                walk(below)

    walk(TaskyardError)
    return sorted(found, key=lambda one: one.__module__ != of_domain.__name__)


def server_codes() -> dict[str, set[int]]:
    """The codes the server's own refusals name in the source, with their statuses."""
    found: dict[str, set[int]] = {name: {status} for status, name in problems.CODES.items()}
    for _, status, name in _refusals():
        match status, name:
            case ast.Constant(value=int(number)), ast.Constant(value=str(text)):
                found.setdefault(text, set()).add(number)
            case _:
                pass
    return found


def hidden_codes() -> Iterator[str]:
    """Where a refusal neither names its code nor passes on that of another error."""
    for place, status, name in _refusals():
        match status, name:
            case ast.Constant(), ast.Constant():
                pass
            case _, None | ast.Attribute(attr="code") | ast.Name(id="code"):
                pass
            case _:
                yield place


def _refusals() -> Iterator[tuple[str, ast.expr, ast.expr | None]]:
    """Place, status and code of `Refusal(404, "not_found", …)`, `problem(503, …, code="bug")`."""
    for path in sorted(SERVER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="Refusal"), args=[status, named, *_]):
                    yield f"{path.name}:{node.lineno}", status, named
                case ast.Call(func=ast.Name(id="problem"), args=[status, *_], keywords=given):
                    said = next((one.value for one in given if one.arg == "code"), None)
                    yield f"{path.name}:{node.lineno}", status, said
                case _:
                    pass


def _tree() -> list[str]:
    assert of_domain.__doc__
    tree = of_domain.__doc__.partition("\n\n")[2].partition("\n\n")[0]
    return tree.splitlines()


def _status(one: type[TaskyardError]) -> str:
    return str(problems.of_taskyard(one("")).status) if one.__module__ == of_domain.__name__ else ""


def _phrase(status: int) -> str:
    return f"{status} {HTTPStatus(status).phrase}"


def _exit(one: type[TaskyardError]) -> int:
    return exit_code(one(""))
