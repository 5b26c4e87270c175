"""Errors of files that a person writes name file, line, table, key and value."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.verbs.contracts.config_files import ConfigurationError, Table, read_tables

TEXT = """\
name = "first"

[limits]
connections = 10

[[queue_manager]]
name = "QM1"

[[queue_manager]]
name = "QM2"
"level" = 940
  is_open = "yes"
"""


@pytest.fixture
def top(tmp_path: Path) -> Table:
    (tmp_path / "a.toml").write_text(TEXT)
    return read_tables(tmp_path / "a.toml")


def said(caught: pytest.ExceptionInfo[ConfigurationError]) -> str:
    return str(caught.value).rpartition("/")[2]


def test_an_error_tells_the_line_of_its_key_in_the_table_that_is_meant(top: Table) -> None:
    limits, (_first, second) = top.table("limits"), top.tables("queue_manager")
    with pytest.raises(ConfigurationError) as caught:
        limits.number("connections", most=9)
    assert said(caught) == (
        "a.toml, line 4: [limits], connections: 10 is not a whole number from 1 to 9"
    )
    with pytest.raises(ConfigurationError) as caught:
        second.boolean("is_open")
    assert caught.value.line == 12
    with pytest.raises(ConfigurationError) as caught:
        second.text("level")
    assert said(caught) == "a.toml, line 11: [[queue_manager]] 2, level: 940 is not a text"
    assert second.text("name") == "QM2"


def test_a_key_that_is_missing_has_no_line(top: Table) -> None:
    with pytest.raises(ConfigurationError) as caught:
        top.text("checkpoint")
    assert said(caught) == "a.toml: checkpoint: is missing"
    assert caught.value.line is None


def test_a_list_of_files_is_counted_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text('mqsc = ["a.mqsc", "/etc/b.mqsc"]\nmore = "c.mqsc"\n')
    top = read_tables(tmp_path / "b.toml")
    assert top.places("mqsc") == [tmp_path / "a.mqsc", Path("/etc/b.mqsc")]
    with pytest.raises(ConfigurationError, match=r"line 2: more: 'c\.mqsc' is not a list of file"):
        top.places("more")


@pytest.mark.parametrize("text", [b"name = ", b"\xff", b"a = 1\na = 2"])
def test_what_is_not_toml_is_an_error_that_names_the_file(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "c.toml").write_bytes(text)
    with pytest.raises(ConfigurationError, match=r"c\.toml: is not TOML: "):
        read_tables(tmp_path / "c.toml")
