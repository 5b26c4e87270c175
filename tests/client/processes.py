"""Processes that tests run on this machine or another one: a server, and a runner of samples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mayfly
from mayfly.client import Client
from tests.facts import PATIENCE_SECONDS
from tests.machines import Machine

ROOT = Path(__file__).parents[2]


@contextmanager
def process(
    home: Path, *words: str, machine: Machine | None = None, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a module of Python for a block, on a machine, with pipes; it is terminated at the end."""
    command = [sys.executable, "-m", *words]
    with subprocess.Popen(
        command if machine is None else machine.command(*command),
        cwd=ROOT,
        env={**os.environ, "MAYFLY_HOME": str(home), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            running.terminate()
            assert running.stdin is not None
            running.stdin.close()
            running.wait(PATIENCE_SECONDS)


@contextmanager
def serving(
    home: Path, names: Sequence[str], address: str, *words: str, machine: Machine | None = None
) -> Iterator[dict[str, Any]]:
    """Have ``mayfly serve`` run for a block; yields what its first line says, and its process."""
    options = ("--mq", address, "--json", *words)
    with process(home, "mayfly", "serve", *names, *options, machine=machine) as server:
        assert server.stdout is not None
        yield {"pid": server.pid, **json.loads(server.stdout.readline())}


@contextmanager
def operating(home: Path, name: str) -> Iterator[Client]:
    """Connect an operator by the socket in the folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAYFLY_HOME", str(home))
        operator = mayfly.connect(name)
    yield operator
    operator.close()


class Outcome(NamedTuple):
    """The output of a sample, and the error that ended it."""

    said: list[str]
    failure: str


class Samples:
    """Runs samples in a process, one after the other."""

    def __init__(self, running: subprocess.Popen[str]) -> None:
        """Take the process of the runner."""
        self._running = running

    def run(self, name: str, **environment: str) -> Outcome:
        """Run one; its environment is that of the next ones too, where they say nothing else."""
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        print(json.dumps([name, environment]), file=self._running.stdin, flush=True)
        return Outcome(**json.loads(self._running.stdout.readline()))


@contextmanager
def samples(home: Path, machine: Machine | None = None, **environment: str) -> Iterator[Samples]:
    """Have a runner of samples for a block."""
    runner = "tests.pymqi.samples_runner"
    with process(home, runner, machine=machine, **environment) as running:
        yield Samples(running)
