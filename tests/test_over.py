"""The option ``--over``: which tests run over a socket, in make test and in make soak."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.over import is_in_sample
from tests.rules import ROOT

FILES = ("tests/spec/test_expiry.py", "tests/pymqi/test_connecting.py", "tests/jms/test_topics.py")
#: Looks at an object of this process.
INSIDE = "tests/pymqi/test_connecting.py::test_connect_finds_the_open_queue_manager"


def collected(way: str) -> list[str]:
    """Return the tests of the files that run in this way."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", f"--over={way}", *FILES]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if "::" in line]


def function_of(test: str) -> str:
    return test.partition("[")[0]


@pytest.mark.slow
def test_a_sample_of_what_can_go_over_a_socket_does_so_in_each_run() -> None:
    all_of_them, possible = collected("session"), collected("socket")
    sample = {function_of(test) for test in all_of_them if "[socket" in test or "-socket" in test}
    assert sample == {
        function
        for function in map(function_of, possible)
        if is_in_sample(function.rpartition("::")[2])
    }
    assert {test.partition("::")[0] for test in possible} == set(FILES)
    inside = {function_of(test) for test in all_of_them} - set(map(function_of, possible))
    assert INSIDE in inside
