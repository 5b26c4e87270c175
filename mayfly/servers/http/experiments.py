"""Experiments (replay and advice) by HTTP: each runs a ``mayfly`` command in a child process.

The command needs numpy and pyarrow, and uses a processor core and memory for some seconds. It reads
a trace file that the server writes, and prints its answer as JSON.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from mayfly.engine import Engine
from mayfly.engine.api.operating import EndedFilter, write_trace
from mayfly.mqi.errors import MQError

#: Positions of the ledger that a trace has at most, the newest.
MAX_LIVES: Final = 1_000_000
#: A command that takes longer is ended.
_MAX_SECONDS: Final = 120.0
_MAX_RUNNING, _MAX_KEPT = 2, 50
#: The command has answered, with bad news.
_ANSWERED: Final = (0, 1)
_LONGEST_ERROR: Final = 2_000


class ExperimentProgress(StrEnum):
    """The state of an experiment."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass
class Experiment:
    """One experiment with the ended messages of a queue manager, and its answer.

    ``command`` is ``replay`` or ``advise``, ``options`` are its arguments after the trace.
    ``number`` is the id for clients. ``error`` says why the experiment failed, empty otherwise;
    ``result`` is the JSON answer of the command, None before.
    """

    engine: Engine
    command: str
    options: Sequence[str]
    where: EndedFilter
    number: str = field(default_factory=lambda: secrets.token_hex(8))
    state: ExperimentProgress = ExperimentProgress.RUNNING
    #: Whether older lives were left out.
    is_cut: bool = False
    error: str = ""
    result: dict[str, Any] | None = None


class TooManyExperiments(Exception):
    """Two experiments run already, or the server is shutting down."""


class Experiments:
    """Runs the experiments of one server; any thread may call its methods."""

    def __init__(self) -> None:
        """Start without experiments."""
        self._changing = threading.Lock()
        self._known: dict[str, Experiment] = {}
        self._processes = set[subprocess.Popen[bytes]]()
        self._is_over = False

    def begin(self, one: Experiment) -> None:
        """Start an experiment in a thread, and return at once.

        Raises TooManyExperiments while two are running, or after :meth:`end`. The last 50
        experiments are kept; older ones that have ended are forgotten.
        """
        with self._changing:
            running = sum(each.state is ExperimentProgress.RUNNING for each in self._known.values())
            if running >= _MAX_RUNNING or self._is_over:
                raise TooManyExperiments
            ended = [
                n for n, each in self._known.items() if each.state is not ExperimentProgress.RUNNING
            ]
            for number in ended[: max(0, len(self._known) + 1 - _MAX_KEPT)]:
                del self._known[number]
            self._known[one.number] = one
        threading.Thread(
            target=self._run, args=(one,), name="mayfly-experiment", daemon=True
        ).start()

    def find(self, engine: Engine, command: str, number: str) -> Experiment | None:
        """Return the experiment with a number.

        None if the number is unknown, or belongs to another queue manager or command.
        """
        found = self._known.get(number)
        is_meant = found is not None and (found.engine, found.command) == (engine, command)
        return found if is_meant else None

    def end(self) -> None:
        """Kill the commands that run, and refuse new experiments from now on."""
        with self._changing:
            self._is_over = True
            processes = list(self._processes)
        for process in processes:
            process.kill()

    def _run(self, one: Experiment) -> None:
        """Write a trace, run the command on it, and record result and state in ``one``.

        The trace has a row for each recorded message. Runs in a thread.
        """
        one.error = "the server has failed; its log says how"
        state = ExperimentProgress.FAILED
        try:
            with tempfile.TemporaryDirectory(prefix="mayfly-experiment-") as folder:
                trace = Path(folder) / "trace.csv"
                with trace.open("w", encoding="utf-8") as output:
                    one.is_cut = write_trace(one.engine, one.where, MAX_LIVES, output.write)
                one.result, one.error = self._answer(one, trace)
                state = ExperimentProgress.FAILED if one.error else ExperimentProgress.DONE
        except (MQError, OSError) as error:
            one.error = str(error)
        finally:
            one.state = state

    def _answer(self, one: Experiment, trace: Path) -> tuple[dict[str, Any] | None, str]:
        """Run the command on a trace; return its JSON answer and "", or None and why it failed.

        The command is killed after 120 seconds.
        """
        called = [sys.executable, "-m", "mayfly", one.command, str(trace), "--json", *one.options]
        with self._changing:
            if self._is_over:
                return None, "the server ends"
            process = subprocess.Popen(called, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self._processes.add(process)
        try:
            message, complained = process.communicate(timeout=_MAX_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None, f"it has taken longer than {_MAX_SECONDS:.0f} s: ask about a shorter time"
        finally:
            with self._changing:
                self._processes.discard(process)
        if process.returncode in _ANSWERED:
            with contextlib.suppress(ValueError):
                found: dict[str, Any] = json.loads(message)
                return found, ""
        text = complained.decode(errors="replace").replace(str(trace), "the ledger").strip()
        return None, text[-_LONGEST_ERROR:] or "the command has given no answer"
