"""docs/PIPELINE.md: the file is a pipeline, the commands are there, the tables name every key."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mayfly.cli.app import app
from mayfly.pipeline import config as config_file
from mayfly.pipeline.config import QueueSource, load
from mayfly.verbs.contracts.config_files import Table
from tests.pages import part

ROOT = Path(__file__).parents[2]
DOCS = part("PIPELINE.md", "A pipeline in a file")


def test_the_file_is_a_pipeline(tmp_path: Path) -> None:
    [text] = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)
    (tmp_path / "calls.toml").write_text(text)
    config = load(tmp_path / "calls.toml")
    assert (config.name, [type(s) for s in config.sources]) == ("calls", [QueueSource])
    assert [sink.name for sink in config.sinks] == ["orders", "urgent"]


def test_the_command_explains_the_example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)
    commands = [
        shlex.split(command, comments=True)
        for command in re.findall(r"^\$ mayfly (.*)$", DOCS, re.MULTILINE)
    ]
    explain, check, run, status = commands
    answer = CliRunner().invoke(app, explain, prog_name="mayfly")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith("Pipeline boarding: ")
    checked = CliRunner().invoke(app, [*check, "--without-spark"], prog_name="mayfly")
    assert (checked.exit_code, checked.stdout) == (0, "examples/boarding.toml can be run\n")
    assert CliRunner().invoke(app, [*run, "--help"]).exit_code == 0
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    told = CliRunner().invoke(app, status, prog_name="mayfly")
    assert (told.exit_code, told.stdout.splitlines()[0]) == (
        1,
        f"boarding: not known here  ({ROOT / 'examples/boarding.toml'})",
    )


def test_every_option_of_run_for_a_watcher_is_in_the_table() -> None:
    shown = CliRunner().invoke(app, ["pipeline", "run", "--help"], prog_name="mayfly").stdout
    for option in ("--json", "--metrics-file", "--metrics-listen"):
        assert option in shown
        assert f"| `{option}" in DOCS


def keys_read(by: str) -> set[str]:
    """Return the keys that code of `config.py` takes from a table."""
    return set(
        re.findall(r"""(?:\b(?:table|top|one)\.\w+\(|\b_\w+\((?:table|top), )"(\w+)\"""", by)
    )


def rows_of(section: str) -> dict[str, str]:
    """Return the rows of the table of a section by their first cell."""
    [text] = re.findall(rf"^## {section}$(.*?)^## ", DOCS, re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"^\| `(\w+)` (\|.*)$", text, re.MULTILINE))


def test_every_key_that_a_pipeline_reads_is_on_the_page() -> None:
    keys = keys_read(inspect.getsource(config_file))
    assert {"dead_letter", "reports", "outcome", "slot_ms", "cap_ms", "consumer"} <= keys
    missing = {key for key in keys if not re.search(rf"(?<!\w){key}(?!\w)", DOCS)}
    assert missing == set()


@pytest.mark.parametrize(
    ("section", "kinds"),
    [("Sources", config_file.SOURCES), ("Routes and sinks", config_file.SINKS)],
    ids=["sources", "sinks"],
)
def test_every_source_and_sink_has_a_row_with_its_keys(
    section: str, kinds: dict[str, Callable[[Table], object]]
) -> None:
    rows = rows_of(section)
    assert rows.keys() == kinds.keys()
    # The row of staging says that its keys are those of a queue.
    for kind in kinds.keys() - {"staging"}:
        code = inspect.getsource(kinds[kind])
        keys = keys_read(code) | ({"columns"} if "_columns(" in code else set())
        keys |= {"url"} & set(re.findall(r"\b_(url)\(", code))
        keys |= {"token_file"} & set(re.findall(r"\b_(token_file)\(", code))
        assert {key for key in keys - {"name"} if f"`{key}`" not in rows[kind]} == set()


def test_every_outcome_has_a_row() -> None:
    assert tuple(rows_of("Limit and delay line")) == config_file.OUTCOMES


@pytest.mark.parametrize("formats", [config_file.SOURCE_FORMATS, config_file.SINK_FORMATS])
def test_every_format_is_on_the_page(formats: tuple[str, ...]) -> None:
    assert {name for name in formats if not re.search(rf"\b{name}\b", DOCS)} == set()
