"""Readings of the source: how large it is, and how many places a change has to touch.

``python -m tests.shape [PARAMETER ...]`` prints the sizes of ``mayfly`` and, for each parameter
(``delay_ms``, for example), the files, signatures, calls and record fields that name it. They are
readings, no limits.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module(NamedTuple):
    """One file: its dotted name, its text and its tree."""

    name: str
    text: str
    tree: ast.Module


class Touches(NamedTuple):
    """The places that name a parameter: those who would add one like it touch as many."""

    files: int
    signatures: int
    calls: int
    fields: int


@cache
def modules() -> list[Module]:
    """Return all files of the package."""
    return [
        Module(
            file.relative_to(ROOT).as_posix().removesuffix(".py").replace("/", "."),
            text := file.read_text("utf-8"),
            ast.parse(text),
        )
        for file in sorted((ROOT / "mayfly").rglob("*.py"))
    ]


def statement_count(tree: ast.Module) -> int:
    """Return how many statements there are, docstrings left out."""
    return sum(isinstance(node, ast.stmt) and not _is_text(node) for node in ast.walk(tree))


def import_line_count(tree: ast.Module) -> int:
    """Return how many lines are taken by imports."""
    return sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def importers() -> dict[str, set[str]]:
    """Return for each module the modules that import it."""
    names = {module.name for module in modules()}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules():
        for node in ast.walk(module.tree):
            for name in _imported(node):
                if name in names and name != module.name:
                    found[name].add(module.name)
    return dict(found)


def with_one_sibling() -> list[str]:
    """Return the modules whose only importer is another one of their package."""
    return sorted(
        name
        for name, by in importers().items()
        if len(by) == 1 and next(iter(by)).rpartition(".")[0] == name.rpartition(".")[0]
    )


def double_class_names() -> dict[str, int]:
    """Return the names that stand for more than one class, with how many."""
    count = Counter(
        node.name
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    )
    return {name: number for name, number in count.items() if number > 1}


def tuple_parameters() -> list[str]:
    """Return the parameters that are tuples of several others: ``way: tuple[LocalQueue, str]``."""
    return [
        f"{module.name}.{node.name}({argument.arg})"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, _FUNCTIONS)
        for argument in _arguments(node)
        if _is_tuple_of_others(argument.annotation)
    ]


def touches(parameter: str) -> Touches:
    """Return how many places name a parameter."""
    files: set[str] = set()
    signatures = calls = fields = 0
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, _FUNCTIONS):
                found = sum(argument.arg == parameter for argument in _arguments(node))
                signatures += found
            elif isinstance(node, ast.Call):
                found = sum(keyword.arg == parameter for keyword in node.keywords)
                calls += found
            elif isinstance(node, ast.ClassDef):
                found = sum(_is_field(statement, parameter) for statement in node.body)
                fields += found
            else:
                found = isinstance(node, ast.Attribute | ast.Name) and parameter in (
                    getattr(node, "attr", None),
                    getattr(node, "id", None),
                )
            if found:
                files.add(module.name)
    return Touches(len(files), signatures, calls, fields)


def readings() -> Iterator[tuple[str, int]]:
    """Yield what is measured of the whole package, by name."""
    files = modules()
    yield "modules with code", sum(bool(statement_count(module.tree)) for module in files)
    yield "lines", sum(len(module.text.splitlines()) for module in files)
    yield "statements without docstrings", sum(statement_count(m.tree) for m in files)
    yield "lines of imports", sum(import_line_count(module.tree) for module in files)
    yield "modules with one importer, a sibling", len(with_one_sibling())
    yield "class names that stand for several things", len(double_class_names())
    yield "parameters that are tuples of others", len(tuple_parameters())
    yield "rooms at the top", len({m.name.split(".")[1] for m in files if m.name.count(".") > 1})


def main(parameters: Sequence[str]) -> int:
    """Print the readings."""
    for name, value in readings():
        print(f"{value:>8,}  {name}")
    for parameter in parameters:
        print(
            f"{parameter}: {', '.join(f'{v} {k}' for k, v in touches(parameter)._asdict().items())}"
        )
    return 0


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    given = node.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def _is_tuple_of_others(annotation: ast.expr | None) -> bool:
    return (
        isinstance(annotation, ast.Subscript)
        and isinstance(annotation.value, ast.Name)
        and annotation.value.id == "tuple"
        and isinstance(annotation.slice, ast.Tuple)
        and not any(
            isinstance(each, ast.Constant) and each.value is Ellipsis
            for each in annotation.slice.elts
        )
    )


def _is_field(statement: ast.stmt, name: str) -> bool:
    return (
        isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.target.id == name
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
