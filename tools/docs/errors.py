"""The page of errors: the tree, and the stable code, HTTP status and exit code of each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from taskyard.cli import errors as of_cli
from taskyard.cli.errors import exit_code
from taskyard.domain import errors as of_domain
from taskyard.domain.errors import TaskyardError
from taskyard.server import problems
from tools.docs.markdown import code, generated, table

SERVER = Path(problems.__file__).parent
_IN_TREE = re.compile(r"^[│├└─ ]*(\w+) {2,}(.+)$", re.MULTILINE)


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("# Errors", "")
    yield generated("`taskyard.domain.errors` and the tables that map it")
    yield "A `code` is stable: programs may decide by it."
    yield "Those that are not in `taskyard` itself are in `taskyard.domain.errors`, and are caught"
    yield "by the one above them; those without an HTTP status are of the command line alone."
    yield ""
    yield from ("```text", *_tree(), "```", "")
    yield from table(
        ("error", "code", "HTTP", "exit code", ""),
        [
            (code(one.__name__), code(one.code), _status(one), str(_exit(one)), _about(one))
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
        ("code", "status"),
        [
            (code(name), ", ".join(f"{one} {HTTPStatus(one).phrase}" for one in sorted(statuses)))
            for name, statuses in sorted(server_codes().items())
        ],
    )


def classes() -> list[type[TaskyardError]]:
    """Every one of them, in the order of the tree."""
    found: list[type[TaskyardError]] = []

    def walk(one: type[TaskyardError]) -> None:
        if one.__module__ in (of_domain.__name__, of_cli.__name__):
            found.append(one)
            for below in one.__subclasses__():
                walk(below)

    walk(TaskyardError)
    return found


def server_codes() -> dict[str, set[int]]:
    """The codes the server's own refusals name in the source, with their statuses."""
    found: dict[str, set[int]] = {name: {status} for status, name in problems.CODES.items()}
    for path in SERVER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                for status, name in _named(node.func.id, node):
                    found.setdefault(name, set()).add(status)
    return found


def _named(function: str, call: ast.Call) -> Iterator[tuple[int, str]]:
    """`Refusal(404, "not_found", …)` and `problem(503, …, code="not_ready")`."""
    constants = [one.value for one in call.args if isinstance(one, ast.Constant)]
    by_name = {
        one.arg: one.value.value for one in call.keywords if isinstance(one.value, ast.Constant)
    }
    status = constants[0] if constants else None
    name = constants[1] if function == "Refusal" and len(constants) > 1 else by_name.get("code")
    if function in ("Refusal", "problem") and isinstance(status, int) and isinstance(name, str):
        yield status, name


def _tree() -> list[str]:
    assert of_domain.__doc__
    tree = of_domain.__doc__.partition("\n\n")[2].partition("\n\n")[0]
    return tree.splitlines()


def _about(one: type[TaskyardError]) -> str:
    words = dict(_IN_TREE.findall(of_domain.__doc__ or ""))
    return one.__doc__ or words.get(one.__name__, "")


def _status(one: type[TaskyardError]) -> str:
    return str(problems.of_taskyard(one("")).status) if one.__module__ == of_domain.__name__ else ""


def _exit(one: type[TaskyardError]) -> int:
    return exit_code(one(""))
