"""docs/COMPATIBILITY.md: its versions are those of the contracts, and its modules are public."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from mayfly.store.database import OLDEST_VERSION, SCHEMA_VERSION
from mayfly.verbs.contracts import channels, claims, ledger, stages, wire

PAGE = (Path(__file__).parents[2] / "docs" / "COMPATIBILITY.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("|")
]


def version_of(words: str) -> str:
    """Return the second cell of the row that begins with these words."""
    [version] = [version for what, version, _ in ROWS if what.startswith(words)]
    return version


def test_the_versions_of_the_page_are_those_that_are_spoken() -> None:
    assert version_of("wire") == str(wire.HIGHEST_VERSION)
    assert version_of("message channels") == str(channels.VERSION)
    assert version_of("Arrow Flight: ledger") == str(ledger.VERSION)
    assert version_of("Arrow Flight: claims") == str(claims.VERSION)
    assert version_of("Arrow Flight: stages") == str(stages.VERSION)
    assert version_of("folder") == f"schema {SCHEMA_VERSION}"
    assert f"opened from schema {OLDEST_VERSION} on" in PAGE


def test_the_modules_that_the_page_calls_public_are_there() -> None:
    [api] = [what for what, _, _ in ROWS if what.startswith("Python API")]
    names = re.findall(r"`(mayfly\.\w+|\.\w+)`", api)
    assert len(names) == 10
    for name in names:
        assert import_module(f"mayfly.{name.rpartition('.')[2]}").__doc__
