"""What is compiled stays compilable, and means the same compiled (hatch_build.py)."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from hatch_build import INTERPRETED, compiled_modules
from mayfly.build import is_compiled
from mayfly.store import units

ROOT = Path(__file__).parent.parent
MODULES = compiled_modules(ROOT)
#: What the classes of a module extend.
BASES = re.compile(r"^ *class \w+\((.*?)\):", re.MULTILINE | re.DOTALL)


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text("utf-8"))


def classes(tree: ast.AST) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def names_of(nodes: list[ast.expr]) -> set[str]:
    return {ast.unparse(node).partition("[")[0] for node in nodes}


def is_open(each: ast.ClassDef) -> bool:
    """Return True if interpreted classes may extend a class that is native all the same."""
    return "mypyc_attr(allow_interpreted_subclasses=True)" in names_of(each.decorator_list)


def is_native(each: ast.ClassDef) -> bool:
    return not each.decorator_list or is_open(each)


FUNCTIONS = (ast.Lambda, ast.FunctionDef)


def refusals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Name what mypyc refuses, or what would mean something else compiled, by line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            yield node.lineno, "a star import"
    for each in classes(tree):
        bases = names_of(each.bases)
        if "NamedTuple" in bases:
            yield from _functions_within_methods(each)
        elif not bases & {"Protocol", "TypedDict"} and is_native(each):
            yield from _defaults(each)


def _functions_within_methods(each: ast.ClassDef) -> Iterator[tuple[int, str]]:
    for method in each.body:
        for inner in ast.walk(method):
            if inner is not method and isinstance(inner, FUNCTIONS):
                yield inner.lineno, f"a function within a method of the tuple {each.name}"


def _defaults(each: ast.ClassDef) -> Iterator[tuple[int, str]]:
    for node in each.body:
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            continue
        if "ClassVar" not in ast.unparse(node.annotation):
            yield node.lineno, f"a default of all objects of {each.name}: set it in __init__"


@pytest.mark.parametrize("module", MODULES)
def test_a_compiled_module_has_nothing_that_the_compiler_refuses(module: str) -> None:
    assert list(refusals(parsed(module))) == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("from mayfly.mqi.constants import *", "a star import"),
        (
            "class Row(NamedTuple):\n    def keys(self):\n        return map(lambda k: k, self)",
            "a function within a method of the tuple Row",
        ),
        ("class Row:\n    k: int = 0", "a default of all objects of Row: set it in __init__"),
    ],
)
def test_what_the_compiler_refuses_is_found(source: str, said: str) -> None:
    assert [words for _, words in refusals(ast.parse(source))] == [said]


def test_no_class_that_is_held_by_weak_references_is_extended() -> None:
    """mypyc makes no native class of it, and its methods then refuse objects of a subclass."""
    every = [each for module in MODULES for each in classes(parsed(module))]
    held = {each.name for each in every if "weakly_held" in names_of(each.decorator_list)}
    assert len(held) == 6
    assert [each.name for each in every if held & names_of(each.bases)] == []


def test_nothing_that_is_interpreted_extends_a_class_that_is_compiled() -> None:
    compiled = {
        each.name
        for module in MODULES
        for each in classes(parsed(module))
        if not names_of(each.bases) & {"NamedTuple", "Protocol", "TypedDict"} and not is_open(each)
    }
    for path in (ROOT / "mayfly").rglob("*.py"):
        module = str(path.relative_to(ROOT))
        # To parse all of them takes three seconds.
        bases = " ".join(BASES.findall(path.read_text("utf-8")))
        if module not in MODULES and compiled & set(re.findall(r"\w+", bases)):
            every = classes(parsed(module))
            elsewhere = compiled - {each.name for each in every}
            assert [each.name for each in every if names_of(each.bases) & elsewhere] == [], path


def test_each_exception_from_the_compilation_is_there() -> None:
    assert [name for name in INTERPRETED if not (ROOT / name).exists()] == []
    assert not set(MODULES) & INTERPRETED.keys()


def test_the_version_says_which_build_it_is() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "mayfly", "--version"], capture_output=True, text=True, check=True
    )
    build = "pure Python" if str(units.__file__).endswith(".py") else "compiled"
    assert said.stdout.rstrip().endswith(f", {build}")
    assert is_compiled() == (build == "compiled")
