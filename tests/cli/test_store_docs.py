"""docs/SERVING.md: the commands on its first lines print what is shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.pages import part


def test_the_documented_commands_print_what_is_shown(
    mayfly: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command without output shown must succeed; in what is shown … stands for anything."""
    text = part("SERVING.md", "The folder of a queue manager")
    first, backup, *_others = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    steps = re.findall(r"^\$ mayfly (.*)\n((?:[^$].*\n)*)", first + backup, re.MULTILINE)
    assert len(steps) == 8
    monkeypatch.chdir(tmp_path)
    for command, output in steps:
        answer = mayfly(*shlex.split(command))
        assert answer.exit_code == 0, answer.output
        pattern = ".*".join(map(re.escape, output.split("…")))
        assert not output or re.fullmatch(pattern, answer.stdout), command
