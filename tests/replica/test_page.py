"""docs/REPLICA.md: the first try prints what is shown, and its runbook does what it says."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from mayfly.runtime import Runtime
from mayfly.store.replica.log import PostgresLog, ReplicaError
from tests.facts import wait_until
from tests.pages import part
from tests.postgres import connect
from tests.replica.test_replica import bodies, opened, put
from tests.replica.test_standby import has_standby

ROOT = Path(__file__).parents[2]
#: What differs each time, in what is shown.
VARIABLE = (
    (r"\d\d:\d\d:\d\d", r"\d\d:\d\d:\d\d"),
    (r"414d5[0-9a-f]+", "[0-9a-f]{48}"),
    (r"laptop,\\ process\\ \d+,\\ after\\ \d+", r".+, process \d+, after \d+"),
    (r"/home/anna", ".*"),
    ("…", "(?s:.*)"),
)


class Step(NamedTuple):
    """A command, and what is shown below it."""

    command: str
    output: list[str]


def steps() -> list[Step]:
    """Return the commands of the page; one goes on until its quotes are closed."""
    found: list[Step] = []
    blocks = re.findall(
        r"^```console\n(.*?)^```$", part("REPLICA.md", "A first try"), re.MULTILINE | re.DOTALL
    )
    for block in blocks:
        for shown in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = shown.splitlines()
            size = 1
            while lines[size - 1].endswith("\\") or "\n".join(lines[:size]).count('"') % 2:
                size += 1
            found.append(Step("\n".join(lines[:size]), lines[size:]))
    return found


def pattern_of(lines: list[str]) -> str:
    pattern = re.escape("\n".join(lines))
    for shown, anything in VARIABLE:
        pattern = anything.join(re.split(shown, pattern))
    return pattern


class Shell:
    """A shell in a folder of its own, whose servers write into files there."""

    def __init__(self, folder: Path) -> None:
        programs = folder / "bin"
        programs.mkdir()
        (programs / "mayfly").write_text(f'#!/bin/sh\nexec {sys.executable} -m mayfly "$@"\n')
        (programs / "mayfly").chmod(0o755)
        self._folder = folder
        #: Lines of servers that were shown already.
        self._seen: list[str] = []
        self._process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> str:
        """Run a command to its end; return what it has printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f'{command}\necho "ended with $?"\n')
        self._process.stdin.flush()
        lines = list(iter(self._process.stdout.readline, "ended with 0\n"))
        assert not [line for line in lines if line.startswith("ended with ") or not line], command
        return "".join(lines)

    def has_said(self, line: str) -> bool:
        """Return True once a server has printed a line that was not shown before."""
        said = [
            each for file in self._folder.glob("*.said") for each in file.read_text().splitlines()
        ]
        for seen in self._seen:
            said.remove(seen)
        found = [each for each in said if re.fullmatch(pattern_of([line]), each)]
        self._seen += found[:1]
        return bool(found)

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


@pytest.mark.long
def test_the_first_try_prints_what_is_shown(url: str, shell: Shell) -> None:
    pytest.importorskip("uvicorn")
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the token")
    # Of the loopback interface, and of no other test process.
    first, second = divmod(os.getpid() % 2**16, 2**8)
    address = f"127.{first}.{second}.21"
    found = [
        Step(
            each.command.replace("127.0.0.1", address),
            [line.replace("127.0.0.1", address) for line in each.output],
        )
        for each in steps()
    ]
    assert sum(each.command.startswith("mayfly ") for each in found) == 7
    for number, (command, output) in enumerate(found):
        if command.startswith("pip "):
            continue
        if command.startswith("mayfly switch"):
            # A reader has been slower.
            wait_until(lambda: has_standby(url))
        run = f"URL='{url}'" if command.startswith("URL=") else command.replace("20s", "6s")
        printed = shell.run(run.replace(" & ", f" >{number}.said 2>&1 & "))
        of_servers = [line for line in output if re.match("serving|standby of|mayfly:", line)]
        for line in of_servers:
            wait_until(partial(shell.has_said, line))
        rest = [line for line in output if line not in of_servers]
        assert not rest or re.fullmatch(pattern_of(rest), printed.rstrip("\n")), (command, printed)


def test_a_lost_database_is_begun_again_from_the_folder_of_the_last_owner(
    url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "QM1"
    with opened(url, folder) as qm:
        put(qm, b"acknowledged")
    with connect(url) as connection:
        connection.execute("DROP SCHEMA mayfly CASCADE")
    with pytest.raises(ReplicaError, match="is not in this database"):
        opened(url, folder)
    (folder / "replica").unlink()
    opened(url, folder).close()
    with opened(url, tmp_path / "elsewhere") as qm:
        assert bodies(qm) == [b"acknowledged"]


def test_of_several_hosts_the_one_that_answers_and_writes_has_the_log(url: str) -> None:
    folder = url.rpartition("=")[2]
    hosts = f"postgresql://mayfly@/postgres?host=/nowhere,{folder}&target_session_attrs=read-write"
    log = PostgresLog(hosts, "QM1", Runtime())
    assert log.standing() is None
    log.close()
