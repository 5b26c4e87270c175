"""docs/TASKS.md: its programs print what stands below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "TASKS.md"
PROGRAMS = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
FRAMEWORKS = ("celery", "taskiq", "django")


@pytest.mark.parametrize(("framework", "program"), [*zip(FRAMEWORKS, PROGRAMS, strict=True)])
def test_the_program_prints_what_the_page_says(framework: str, program: tuple[str, str]) -> None:
    """Each has a process of its own: settings of Django are those of a process."""
    if find_spec(framework) is None:
        pytest.skip(f"the extra {framework} is not installed")
    code, said = program
    if framework == "django" and find_spec("django.tasks") is None:
        # Django 5 with the package that has the same.
        code = code.replace("from django.tasks import", "from django_tasks import")
    run = "import sys; exec(compile(sys.argv[1], 'docs/TASKS.md', 'exec'))"
    done = subprocess.run(
        [sys.executable, "-c", run, code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == said, done.stderr


def test_the_shop_with_taskiq_is_short() -> None:
    code = PROGRAMS[FRAMEWORKS.index("taskiq")][0]
    assert len([line for line in code.splitlines() if line.strip()]) < 45
