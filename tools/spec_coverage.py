"""Which statements of docs/spec are shown by a test or a benchmark.

Tests name them with `@pytest.mark.spec("engine-12")`, on a function, a class or as `pytestmark`;
benchmarks with a module-level `SPEC = ("engine-12",)`. Everything is read from the syntax tree, so
nothing has to be importable.

Parts of a statement that the tests of the rest do not touch are listed in spec_parts.toml. A test
shows one with `@pytest.mark.spec("lifecycle-2", part="HTTP")`; until then the statement is shown in
part, which is not shown.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent

ITEM = re.compile(r"^(?P<number>\d+)\. (?P<text>.*)$")
ROW = re.compile(r"^\| *(?P<number>\d+) *\| *(?P<text>.*?) *\|")
CODE = re.compile(r"```.*?(```|\Z)", re.DOTALL)
REQUIRED = re.compile(r"^(?P<page>[a-z]+)-(?P<first>\d+)(\.\.(?P<last>\d+))?$")


class SpecError(Exception):
    """The spec, a mark or a requirement that cannot be understood."""


class Statement(msgspec.Struct, frozen=True):
    page: str
    number: int
    text: str

    @property
    def id(self) -> str:
        return f"{self.page}-{self.number}"


class Claim(msgspec.Struct, frozen=True):
    """A test or a benchmark that says it shows a statement, or one part of it."""

    statement: str
    where: str
    part: str | None = None


class Coverage(msgspec.Struct, frozen=True):
    id: str
    text: str
    tests: Sequence[str]
    benches: Sequence[str]
    missing: Sequence[str] = ()  # parts that nothing shows

    @property
    def page(self) -> str:
        return self.id.rpartition("-")[0]

    @property
    def shown(self) -> bool:
        return bool(self.tests or self.benches) and not self.missing

    @property
    def shown_in_part(self) -> bool:
        return bool(self.tests or self.benches) and bool(self.missing)


# --- the spec ---


def read_spec(folder: Path) -> list[Statement]:
    pages = sorted(path for path in folder.glob("*.md") if path.stem != "README")
    return [statement for path in pages for statement in read_page(path)]


def read_page(path: Path) -> list[Statement]:
    lines = path.read_text(encoding="utf-8").splitlines()
    found: dict[int, str] = {}
    for at, line in enumerate(lines):
        match = ITEM.match(line) or ROW.match(line)
        if match is None:
            continue
        number = int(match["number"])
        if number in found:
            raise SpecError(f"{path.name}: statement {number} is there twice")
        found[number] = prose([match["text"], *continuation(lines[at + 1 :])])
    return [Statement(path.stem, number, text) for number, text in sorted(found.items())]


def continuation(lines: Iterable[str]) -> Iterator[str]:
    """The indented lines that still belong to the statement above them."""
    for line in lines:
        if line and not line.startswith(" "):
            return
        yield line.strip()


def prose(lines: Iterable[str]) -> str:
    """The words of a statement, without its code blocks and its emphasis."""
    words = CODE.sub(" ", "\n".join(lines)).replace("**", "").replace("`", "")
    return " ".join(words.split())


def read_parts(file: Path) -> Mapping[str, list[str]]:
    """By statement, the parts that need a test of their own."""
    if not file.exists():
        return {}
    found = tomllib.loads(file.read_text(encoding="utf-8"))
    try:
        return msgspec.convert(found, dict[str, list[str]])
    except msgspec.ValidationError as error:
        raise SpecError(f"{file.name}: {error}") from None


# --- what the tests and benchmarks claim ---


def read_tests(folder: Path) -> list[Claim]:
    return [claim for path in python_files(folder) for claim in claims_of_tests(path, folder)]


def claims_of_tests(path: Path, folder: Path) -> list[Claim]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    where = path.relative_to(folder.parent).as_posix()
    marks = set(spec_marks([tree]))
    used: set[ast.Call] = set()
    claims = list(collect(tree, where, frozenset(), used)) if is_test_file(path) else []
    for mark in marks - used:
        # pytest would never see it, so it must not look like a proof.
        raise SpecError(f"{where}:{mark.lineno}: this spec mark is not on a test")
    return claims


def is_test_file(path: Path) -> bool:
    return path.name.startswith("test_")


def collect(
    scope: ast.Module | ast.ClassDef,
    where: str,
    inherited: frozenset[ast.Call],
    used: set[ast.Call],
) -> Iterator[Claim]:
    """The claims of all tests in a module or class, with the marks they inherit from it."""
    inherited |= frozenset(mark for node in scope.body for mark in pytestmark(node))
    for node in scope.body:
        name = test_name(node)
        if name is None:
            continue
        marks = inherited | frozenset(spec_marks(marked_parts(node)))
        if isinstance(node, ast.ClassDef):
            yield from collect(node, f"{where}::{name}", marks, used)
        else:
            used |= marks
            yield from (claim for mark in marks for claim in claims_in(mark, f"{where}::{name}"))


def test_name(node: ast.stmt) -> str | None:
    """The name under which pytest would collect this statement, if it would."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name if name.startswith("test_") else None
        case ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            # The assignment is `TestThing = Machine.TestCase`, as Hypothesis wants it.
            return name if name.startswith("Test") else None
        case _:
            return None


def marked_parts(node: ast.stmt) -> list[ast.expr]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.decorator_list
        case ast.Assign():
            return [node.value]
        case _:
            return []


def pytestmark(node: ast.stmt) -> Iterator[ast.Call]:
    match node:
        case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
            yield from spec_marks([value])
        case ast.AnnAssign(target=ast.Name(id="pytestmark"), value=ast.expr() as value):
            yield from spec_marks([value])
        case _:
            pass


def spec_marks(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        for inner in ast.walk(node):
            match inner:
                case ast.Call(
                    func=ast.Attribute(
                        attr="spec", value=ast.Attribute(attr="mark") | ast.Name(id="mark")
                    )
                ):
                    yield inner
                case _:
                    pass


def claims_in(mark: ast.Call, where: str) -> Iterator[Claim]:
    if not mark.args:
        raise SpecError(f"{where}, line {mark.lineno}: a spec mark names statements")
    part = part_in(mark, where)
    for argument in mark.args:
        match argument:
            case ast.Constant(value=str(statement)):
                yield Claim(statement, where, part)
            case _:
                raise SpecError(f"{where}, line {mark.lineno}: a spec mark takes plain strings")


def part_in(mark: ast.Call, where: str) -> str | None:
    match mark.keywords:
        case []:
            return None
        case [ast.keyword(arg="part", value=ast.Constant(value=str(part)))]:
            return part
        case _:
            raise SpecError(f'{where}, line {mark.lineno}: a spec mark takes part="…" beside ids')


def read_benches(folder: Path) -> list[Claim]:
    return [claim for path in python_files(folder) for claim in claims_of_bench(path, folder)]


def claims_of_bench(path: Path, folder: Path) -> Iterator[Claim]:
    where = path.relative_to(folder.parent).as_posix()
    for node in ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="SPEC")], value=value)
                | ast.AnnAssign(target=ast.Name(id="SPEC"), value=ast.expr() as value)
            ):
                yield from (Claim(statement, where) for statement in bench_ids(value, where))
            case _:
                pass


def bench_ids(value: ast.expr, where: str) -> Iterator[str]:
    if not isinstance(value, ast.Tuple | ast.List):
        raise SpecError(f"{where}:{value.lineno}: SPEC is a tuple of plain strings")
    for element in value.elts:
        match element:
            case ast.Constant(value=str(statement)):
                yield statement
            case _:
                raise SpecError(f"{where}:{value.lineno}: SPEC is a tuple of plain strings")


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


# --- both together ---


def cover(
    statements: Sequence[Statement],
    tests: Sequence[Claim],
    benches: Sequence[Claim],
    parts: Mapping[str, Sequence[str]] | None = None,
) -> list[Coverage]:
    parts = parts or {}
    known = {statement.id for statement in statements}
    for unknown in parts.keys() - known:
        raise SpecError(f"spec_parts.toml: docs/spec has no statement {unknown!r}")
    for claim in (*tests, *benches):
        if claim.statement not in known:
            raise SpecError(f"{claim.where}: docs/spec has no statement {claim.statement!r}")
        if claim.part is not None and claim.part not in parts.get(claim.statement, ()):
            raise SpecError(
                f"{claim.where}: spec_parts.toml names no part {claim.part!r} of {claim.statement}"
            )
    by_test, by_bench = places(tests), places(benches)
    shown = {(claim.statement, claim.part) for claim in (*tests, *benches)}
    return [
        Coverage(
            s.id,
            s.text,
            by_test.get(s.id, []),
            by_bench.get(s.id, []),
            missing_parts(s.id, parts.get(s.id, ()), shown),
        )
        for s in statements
    ]


def missing_parts(
    statement: str, parts: Sequence[str], shown: Set[tuple[str, str | None]]
) -> list[str]:
    """Those that nothing shows, of a statement that something shows."""
    rest = [] if (statement, None) in shown or not parts else ["the rest"]
    return rest + [part for part in parts if (statement, part) not in shown]


def places(claims: Iterable[Claim]) -> Mapping[str, list[str]]:
    found: dict[str, set[str]] = {}
    for claim in claims:
        found.setdefault(claim.statement, set()).add(claim.where)
    return {statement: sorted(where) for statement, where in found.items()}


def required_ids(wanted: str, known: Iterable[str]) -> list[str]:
    """`engine-1,engine-4..6` written out; each must exist."""
    ids = [one for part in wanted.split(",") for one in written_out(part.strip())]
    for unknown in set(ids) - set(known):
        raise SpecError(f"--require: docs/spec has no statement {unknown!r}")
    return ids


def written_out(part: str) -> list[str]:
    match = REQUIRED.match(part)
    if match is None:
        raise SpecError(f"--require: {part!r} is neither engine-1 nor engine-1..14")
    first = int(match["first"])
    last = int(match["last"] or first)
    if last < first:
        raise SpecError(f"--require: {part!r} is an empty range")
    return [f"{match['page']}-{number}" for number in range(first, last + 1)]


# --- showing it ---


def show(console: Console, covered: Sequence[Coverage]) -> None:
    shown = [one for one in covered if one.shown]
    in_part = [one for one in covered if one.shown_in_part]
    missing = [one for one in covered if not (one.shown or one.shown_in_part)]
    if shown:
        console.print(shown_table(shown))
    if in_part:
        console.print(in_part_table(in_part))
    if missing:
        console.print(missing_table(missing))
    console.print(totals_table(covered))


def shown_table(shown: Sequence[Coverage]) -> Table:
    table = Table("statement", "", "tests", "benches", "by", title="Shown")
    for one in shown:
        names = [short(where) for where in (*one.tests, *one.benches)]
        table.add_row(
            one.id, opening(one.text), str(len(one.tests)), str(len(one.benches)), listed(names)
        )
    return table


def in_part_table(in_part: Sequence[Coverage]) -> Table:
    table = Table("statement", "", "tests", "not shown yet", title="Shown in part")
    for one in in_part:
        parts = Text(", ".join(one.missing))
        table.add_row(one.id, opening(one.text, width=60), str(len(one.tests)), parts)
    return table


def missing_table(missing: Sequence[Coverage]) -> Table:
    table = Table("statement", "", title="Not shown yet")
    for one in missing:
        table.add_row(one.id, opening(one.text, width=80))
    return table


def totals_table(covered: Sequence[Coverage]) -> Table:
    table = Table("page", "shown", "in part", "of", title="Totals")
    for page in dict.fromkeys(one.page for one in covered):
        add_total(table, page, [one for one in covered if one.page == page])
    table.add_section()
    add_total(table, "all", covered)
    return table


def add_total(table: Table, name: str, of: Sequence[Coverage]) -> None:
    shown, in_part = sum(one.shown for one in of), sum(one.shown_in_part for one in of)
    table.add_row(name, str(shown), str(in_part), str(len(of)))


def opening(text: str, width: int = 40) -> Text:
    # Text, because the spec's square brackets are not markup.
    return Text(text if len(text) <= width else text[: width - 1].rstrip() + "…")


def short(where: str) -> str:
    """`tests/engine/test_drain.py::test_x` without the folders."""
    return where.rpartition("/")[2].replace(".py", "")


def listed(names: Sequence[str], most: int = 3) -> Text:
    lines = [*names[:most]]
    if len(names) > most:
        lines.append(f"and {len(names) - most} more")
    return Text("\n".join(lines), overflow="ellipsis", no_wrap=True)


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--require", metavar="IDS", help="fail unless these are shown")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def run(argv: Sequence[str] | None) -> int:
    chosen = options(argv)
    root: Path = chosen.root
    covered = cover(
        read_spec(root / "docs" / "spec"),
        read_tests(root / "tests"),
        read_benches(root / "bench"),
        read_parts(root / "tools" / "spec_parts.toml"),
    )
    required = required_ids(chosen.require, [one.id for one in covered]) if chosen.require else []
    if chosen.json:
        print(msgspec.json.format(msgspec.json.encode(covered)).decode())
    else:
        console = Console()
        # A pipe has no width of its own.
        console.width = console.width if console.is_terminal else 120
        show(console, covered)
    missing = sorted(one.id for one in covered if one.id in required and not one.shown)
    if missing:
        print(f"required but not shown: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return run(argv)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
