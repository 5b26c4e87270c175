"""docs/ADMINISTRATION.md: its example runs, and its tables are what the code has."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from mayfly import admin
from mayfly.mqi import command_constants
from mayfly.mqi import reasons as rc

PAGE = (Path(__file__).parents[2] / "docs" / "ADMINISTRATION.md").read_text("utf-8")


EXAMPLES = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("place", range(2))
def test_the_examples_print_what_the_page_says(place: int) -> None:
    assert len(EXAMPLES) == 2
    code, printed = EXAMPLES[place]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "ADMINISTRATION.md", "exec"), {})
    assert out.getvalue() == printed


def test_every_name_of_the_tables_is_there() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    fields = set(admin.Attribute._fields)
    assert len(names) > 20
    assert {name for name in names if not hasattr(admin, name)} <= fields


def test_every_reason_of_the_table_has_its_number() -> None:
    codes = dict(re.findall(r"(MQRC\w+) \((\d+)\)", PAGE))
    assert len(codes) == 6
    known = {**vars(rc), **vars(command_constants)}
    assert {name: known[name] for name in codes} == {n: int(code) for n, code in codes.items()}
