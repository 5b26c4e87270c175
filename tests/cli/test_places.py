"""Arguments and options that are paths: a URL is refused by its scheme, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from mayfly.cli import values
from mayfly.cli.app import COMMANDS, command_named
from mayfly.cli.outcomes import ExitCode
from tests.cli.conftest import Invoke

BUCKET = "s3a://bucket/x"


def paths() -> Iterator[tuple[str, Any]]:
    """Yield each parameter of each command that is a path: its words, and its parser."""
    left: list[tuple[str, Any]] = [(name, command_named(name)) for name in COMMANDS]
    while left:
        words, command = left.pop()
        inner = getattr(command, "commands", {})
        left += [(f"{words} {name}", found) for name, found in inner.items()]
        types = {} if inner else get_type_hints(command.callback)
        for parameter in () if inner else command.params:
            if "Path" in str(types.get(parameter.name)):
                # None for a type that Typer itself reads.
                yield f"{words} {parameter.opts[0]}", getattr(parameter.type, "func", None)


def test_every_path_of_the_command_line_is_a_text_until_its_scheme_is_known() -> None:
    found = dict(paths())
    assert {"ledger export target", "replay --out", "why --lake"} <= found.keys()
    wrong = [words for words, parser in found.items() if parser is not values.local_path]
    assert wrong == [], "give it parser=local_path: a Path eats a slash of s3a://"


@pytest.mark.parametrize(
    "words",
    [
        "ledger export . s3a://bucket/x.csv",
        "ledger report . --plot s3a://bucket/x.png",
        "replay s3a://bucket/x",
        "replay . --out s3a://bucket/x.csv",
        "advise s3a://bucket/x",
        "advise --on-message s3a://bucket/x.csv",
        "serve QM1 --lake s3a://bucket/x",
        "serve QM1 --path s3a://bucket/x",
        "serve s3a://bucket/x.toml",
        "why QM1 00 --lake s3a://bucket/x",
        "qm create QM1 --path s3a://bucket/x",
        "claims release QM1 c --checkpoint s3a://bucket/x",
        "pipeline check s3a://bucket/x.toml",
        "mqsc QM1 -c PING --path s3a://bucket/x",
        "verify QM1 --path s3a://bucket/x",
        "cluster --folder s3a://bucket/x",
        "demo --out s3a://bucket/x",
    ],
)
def test_a_url_is_refused_by_its_scheme_and_nothing_is_written(
    mayfly: Invoke, home: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(home)
    answer = mayfly(*words.split())
    said = " ".join(answer.output.split())
    assert (answer.exit_code, "s3a:" in said) == (ExitCode.USAGE, True), said
    assert "not supported" in said or "neither mq:// nor mqs://" in said
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "ledger run s3a://bucket/x --format parquet --url grpc://127.0.0.1:1",
            "--format parquet: s3a://bucket/x is a lake of Delta tables",
        ),
        ("ledger report s3a:/bucket/x", "s3a:/bucket/x is no URL: it has one slash behind s3a:"),
        ("ledger report nowhere://bucket/x", "lake nowhere://bucket/x: "),
    ],
)
def test_the_url_of_a_lake_keeps_its_slashes_and_no_folder_of_its_name_is_made(
    mayfly: Invoke, home: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.chdir(home)
    answer = mayfly(*words.split())
    assert answer.exit_code in (ExitCode.USAGE, ExitCode.PIPELINE)
    assert said in " ".join(answer.output.split())
    assert list(home.iterdir()) == []


def test_a_home_that_is_a_url_is_refused(
    mayfly: Invoke, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("MAYFLY_HOME", BUCKET)
    answer = mayfly("mqsc", "QM1", "-c", "PING QMGR")
    assert answer.exit_code == ExitCode.USAGE
    assert "s3a: is not supported" in answer.output
    assert list(home.iterdir()) == []


def test_a_file_url_is_the_folder(mayfly: Invoke, home: Path) -> None:
    answer = mayfly("mqsc", "QM1", "-c", "PING QMGR", "--path", f"file://{home}/there")
    assert answer.exit_code == 0, answer.output
    assert (home / "there").is_dir()
