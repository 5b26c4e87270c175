"""docs/INSTALL.md: its commands lead to a first login, and its facts are those of deploy/."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mayfly
from tests.cli.conftest import COMMAND, ROOT

PAGE = (ROOT / "docs/INSTALL.md").read_text("utf-8")
UNIT = (ROOT / "deploy/mayfly.service").read_text("utf-8")
PASSWORD = "between us"
#: The ports of the example.
LISTENS = {"mq": 1414, "http": 9443}
#: What needs the rights of root, or a service manager; and what takes minutes (test_wheel.py).
NOT_HERE = ("useradd", "python3 -m venv", "pip install", "systemctl")


def chapter(heading: str) -> list[tuple[str, str]]:
    """Return the commands under a heading, each with the output that is shown below it."""
    [text] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    shown = "".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL))
    found = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", shown, re.MULTILINE)
    return [(command.replace("\\\n", " "), output) for command, output in found]


class Machine:
    """A folder in the place of a server's directories; commands run there as this user."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {
            **os.environ,
            "MAYFLY_PASSWORD": PASSWORD,
            "PYTHONPATH": str(ROOT),
        }
        for name in ("etc/systemd/system", "opt/mayfly/bin", "var/lib", "work"):
            (root / name).mkdir(parents=True)
        (root / "work/deploy").symlink_to(ROOT / "deploy")
        for folder in ("opt/mayfly/bin", "work"):
            command = root / folder / "mayfly"
            command.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
            command.chmod(0o755)

    def here(self, text: str) -> str:
        """Return a text with the directories of this machine."""
        return re.sub(r"(?<![\w.])/(etc|opt|var)/", rf"{self.root}/\1/", text)

    def run(self, command: str, stdin: str = "") -> str:
        """Run a command of the page, and return its output."""
        command = re.sub(r"^sudo (-u mayfly )?", "", command).replace(" -g mayfly", "")
        done = subprocess.run(
            self.here(command),
            shell=True,
            cwd=self.root / "work",
            env={**self.environment, "PATH": f"{self.root}/work:{os.environ['PATH']}"},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def start(self) -> subprocess.Popen[str]:
        """Start what the unit starts; with no variables of a user's shell."""
        [check] = re.findall(r"^ExecStartPre=(.*)$", UNIT, re.MULTILINE)
        home = f"MAYFLY_HOME={self.root}/var/lib/mayfly"
        self.run(f"{home} {check}")
        [start] = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
        own = {
            name: value
            for name, value in self.environment.items()
            if not name.startswith(("LANG", "LC_", "PYTHON"))
        }
        own |= {"PYTHONPATH": str(ROOT), "MAYFLY_HOME": f"{self.root}/var/lib/mayfly"}
        return subprocess.Popen(
            [*COMMAND, *shlex.split(self.here(start))[1:]],
            env=own,
            stdout=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without Mayfly's files."""
    if shutil.which("openssl") is None or shutil.which("curl") is None:
        pytest.skip("openssl and curl are not both here")
    return Machine(tmp_path)


@pytest.mark.slow
@pytest.mark.long
def test_the_commands_lead_from_a_new_machine_to_the_first_login(machine: Machine) -> None:
    commands = chapter("On a server")
    [start] = [n for n, (command, _) in enumerate(commands) if "systemctl enable" in command]
    for command, _ in commands[:start]:
        if not any(words in command for words in NOT_HERE):
            machine.run(command)
    config = machine.root / "etc/mayfly/config.toml"
    assert config.stat().st_mode & 0o777 == 0o640
    any_port = re.sub(r":\d+\"$", ':0"', config.read_text("utf-8"), flags=re.MULTILINE)
    config.write_text(any_port)
    (_, pinged), (add, added), (export, _), put, got, (curl, _), *_ = commands[start + 1 :]
    with machine.start() as server:
        assert server.stdout is not None
        ready = dict(re.findall(r"(\w+) (\S+:\d+)", server.stdout.readline()))
        try:
            assert machine.run(commands[start + 1][0]) == pinged
            assert machine.run(f"{add} --password-stdin", f"{PASSWORD}\n") == added
            variables = (word.split("=", 1) for word in shlex.split(export)[1:])
            place = {name: with_ports(value, ready) for name, value in variables}
            machine.environment |= place
            assert re.fullmatch(r"[0-9a-f]{48}\n", machine.run(put[0]))
            asked = "password of anna:\n"
            assert (put[1], got[1]) == (asked, asked + machine.run(got[0]))
            logged_in = with_ports(curl.replace("anna", f"'anna:{PASSWORD}' -sS"), ready)
            assert json.loads(machine.run(logged_in))["user"][0]["name"] == "anna"
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


def with_ports(text: str, ready: dict[str, str]) -> str:
    """Return a text with the ports on which the server listens here."""
    for name, port in LISTENS.items():
        text = text.replace(str(port), ready[name].rpartition(":")[2])
    return text


def test_the_page_names_the_version_and_the_ports_that_are_there() -> None:
    assert set(re.findall(r"mayfly_mq-([\d.]+)-py3", PAGE)) == {mayfly.__version__}
    assert set(re.findall(r"mayfly:(\d[\d.]+)", PAGE)) == {mayfly.__version__}
    config = (ROOT / "deploy/config.toml").read_text("utf-8")
    for name, port in LISTENS.items():
        assert f'\n{name} = "0.0.0.0:{port}"\n' in config


def test_completion_is_installed_and_shown_by_the_options_that_the_page_names() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "mayfly", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for option in re.findall(r"`mayfly (--\w+-completion)`", PAGE):
        assert option in shown
    completed = subprocess.run(
        COMMAND,
        env={
            **os.environ,
            "_MAYFLY_COMPLETE": "complete_bash",
            "COMP_WORDS": "mayfly schedule re",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.stdout.split() == ["reschedule", "release"]
