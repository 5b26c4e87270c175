"""Notebooks are run from their first cell to their last, and print what they show."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
#: Runs code cells in one namespace, as a kernel does, and prints the text of each as JSON.
_KERNEL = """
import contextlib, io, json, sys
names = {}
for number, source in enumerate(json.loads(sys.stdin.read()), 1):
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(compile(source, f"cell {number}", "exec"), names)
    print(json.dumps(told.getvalue()))
"""


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    """Return the code cells of a notebook."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> str:
    """Return the text that a cell is shown to print, "" for none."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(notebook: Path, tmp_path: Path) -> None:
    cells = code_cells(notebook)
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", _KERNEL],
        input=json.dumps(["".join(cell["source"]) for cell in cells]),
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=ROOT / "examples",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert [json.loads(line) for line in answer.stdout.splitlines()] == list(map(shown, cells))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_name_that_a_notebook_imports_is_there(notebook: Path) -> None:
    source = "\n".join("".join(cell["source"]) for cell in code_cells(notebook))
    imports: list[ast.stmt] = [
        node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert imports
    exec(compile(ast.Module(imports, []), notebook.name, "exec"), {})


def test_there_is_a_notebook_on_lifetimes() -> None:
    assert [path.name for path in NOTEBOOKS] == ["lifetimes.ipynb"]
