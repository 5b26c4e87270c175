"""Fixtures of the sharing tests: a group with two members under a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sharing.scene import Sharing


@pytest.fixture
def sharing() -> Iterator[Sharing]:
    """Return a group with QM1 and QM2 in memory, and check it afterwards."""
    in_memory = Sharing(None)
    yield in_memory
    in_memory.end()


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Sharing]:
    """Return a group with QM1 and QM2 on disk, and check it afterwards."""
    with_folders = Sharing(tmp_path)
    yield with_folders
    with_folders.end()
