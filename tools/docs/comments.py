"""What the code says of fields and members: the comment at the end of their line."""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize


def of_fields(cls: type) -> dict[str, str]:
    """By name, for what is assigned in the body of the class."""
    source, tree = _parsed(cls)
    return _told(source, tree.body)


def of_attributes(cls: type) -> dict[str, str]:
    """By name, for the public attributes that the class's own __init__ sets."""
    source, tree = _parsed(cls)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return _told(source, node.body)
    return {}


def _parsed(cls: type) -> tuple[str, ast.ClassDef]:
    source = textwrap.dedent(inspect.getsource(cls))
    [tree] = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    return source, tree


def _told(source: str, body: list[ast.stmt]) -> dict[str, str]:
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and "noqa" not in token.string
    }
    found: dict[str, str] = {}
    for node in body:
        match node:
            case ast.AnnAssign(target=target) | ast.Assign(targets=[target]):
                name = _name(target)
            case _:
                continue
        if name and not name.startswith("_"):
            found[name] = comments.get(node.end_lineno or node.lineno, "")
    return found


def _name(target: ast.expr) -> str | None:
    match target:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case _:
            return None
