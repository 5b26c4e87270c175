"""deploy/: the unit, the image and the example that an operator begins with."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.outcomes import ExitCode
from mayfly.servers.settings import read_settings
from tests.cli.conftest import ROOT, Invoke

DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "mayfly.service").read_text("utf-8")
#: An image is made of others, which are loaded over the network, and of packages.
BUILD_SECONDS = 600


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of this machine to its end."""
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)


def test_the_example_is_right_and_its_script_can_run_at_each_start(mayfly: Invoke) -> None:
    checked = mayfly("serve", str(DEPLOY / "config.toml"), "--check")
    assert (checked.exit_code, checked.stderr) == (ExitCode.DONE, "")
    [served] = read_settings(DEPLOY / "config.toml").queue_managers
    with QueueManager(served.name) as manager:
        for script in served.mqsc * 2:
            assert manager.mqsc(script.read_text("utf-8")).ok


def test_the_unit_runs_commands_that_are_there(mayfly: Invoke) -> None:
    """systemd waits for READY=1, and gives a drain more time than the example says."""
    starts = re.findall(r"^ExecStart(?:Pre)?=(.*)$", UNIT, re.MULTILINE)
    assert [shlex.split(start)[1] for start in starts] == ["serve", "serve"]
    assert "Type=notify\n" in UNIT
    [stop_seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(stop_seconds) > read_settings(DEPLOY / "config.toml").drain_seconds


@pytest.mark.soak
def test_the_image_is_built_and_says_its_version(tmp_path: Path) -> None:
    engine = next(filter(None, map(shutil.which, ("podman", "docker"))), None)
    if engine is None or run(engine, "info").returncode:
        pytest.skip("no engine of containers runs here")
    image = run(engine, "build", "-q", "-f", str(DEPLOY / "Containerfile"), str(ROOT))
    assert image.returncode == 0, image.stderr
    said = run(engine, "run", "--rm", "--entrypoint", "mayfly", image.stdout.strip(), "--version")
    assert said.stdout.startswith("mayfly "), said.stderr
