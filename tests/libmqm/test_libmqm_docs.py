"""docs/LIBMQM.md: its C program is compiled, and its test of it passes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mayfly.pymqi.libmqm.library import compiler
from mayfly.testing import VirtualClock
from mayfly.testing.served import ServedQueueManager
from tests.libmqm.conftest import Programs
from tests.readme import ROOT

PAGE = (ROOT / "docs" / "LIBMQM.md").read_text("utf-8")

pytestmark = [pytest.mark.in_process, pytest.mark.slow]


def test_the_program_of_the_page_passes_the_test_of_the_page(
    programs: Programs,
    served_queue_manager: ServedQueueManager,
    clock: VirtualClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [source] = re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "offer.c").write_text(source)
    for name, value in programs.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    subprocess.run([compiler(), "-Wall", "offer.c", "-o", "offer", "-lmqm_r"], check=True)
    [shown] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(shown, "LIBMQM.md", "exec"), names)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    test(served_queue_manager, clock)
