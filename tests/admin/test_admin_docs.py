"""docs/ADMINISTRATION.md: its example runs, and its tables are what the code has."""

import contextlib
import io
import re
from pathlib import Path

from mayfly import admin
from mayfly.mqi import command_constants
from mayfly.mqi import reasons as rc

PAGE = (Path(__file__).parents[2] / "docs" / "ADMINISTRATION.md").read_text("utf-8")


def test_the_example_prints_what_the_page_says() -> None:
    code, printed = re.findall(r"```(?:python|text)\n(.*?)```", PAGE, re.DOTALL)
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
