"""What a command prints for programs reaches them while it goes on."""

from __future__ import annotations

import os
import select
import subprocess
import sys

from tests.cli.conftest import ROOT
from tests.facts import PATIENCE_SECONDS

#: Prints a line, and goes on until its input ends.
PROGRAM = """
import sys
from mayfly.cli.show import print_json
print_json({"batch": 1}, indent=None)
sys.stdin.read()
"""


def test_a_line_of_json_reaches_a_pipe_while_the_command_goes_on() -> None:
    """PYTHONUNBUFFERED, which a machine of tests may have, would hide that nothing is flushed."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**bare, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        readable, _, _ = select.select([command.stdout], [], [], PATIENCE_SECONDS)
        line = command.stdout.readline() if readable else b""
        command.stdin.close()
    assert line == b'{"batch": 1}\n'
