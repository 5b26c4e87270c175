"""C programs that are linked with the library: verbs, topics, threads, forks, lost connections."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hatch_build import c_library
from mayfly import QueueManager
from mayfly.cli.app import app
from mayfly.pymqi.libmqm import entry_points
from mayfly.pymqi.libmqm.library import python_library
from tests.connection.serving import HOST
from tests.libmqm.conftest import PROGRAM_SECONDS, Programs, Served
from tests.readme import ROOT
from tests.relay import relaying

#: The programs connect to a port of their own accord.
pytestmark = [pytest.mark.in_process, pytest.mark.slow]


def test_structures_of_every_version_put_and_get(programs: Programs, served: Served) -> None:
    programs.run(served, "verbs")
    manager = served.manager
    session = manager.session()
    assert session.get("Q1") is None
    found = session.get("Q2")
    assert found is not None
    assert (found.body, found.remaining_tenths) == (b"for a 5s", 50)
    assert found.descriptor.put_appl_name == "verbs"


def test_subscriptions_properties_and_status(programs: Programs, served: Served) -> None:
    programs.run(served, "topics_and_properties")


def test_eight_threads_with_callbacks(programs: Programs, served: Served) -> None:
    programs.run(served, "threads")


def test_a_forked_child_has_no_connection_and_makes_its_own(
    programs: Programs, served: Served
) -> None:
    programs.run(served, "forks")
    session = served.manager.session()
    bodies = [message.body for name in ("Q1", "Q2") if (message := session.get(name))]
    assert bodies == [b"parent", b"child"]


def test_a_lost_connection_is_2009_to_verbs_and_callbacks(
    programs: Programs, served: Served
) -> None:
    with relaying(HOST, served.port) as relay:
        program = programs.started(relay.port, programs.compiled("loses"))
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        relay.cut()
        output, errors = program.communicate(timeout=PROGRAM_SECONDS)
    assert (program.returncode, output) == (0, "ok\n"), errors


def test_asynchronous_puts_and_read_ahead_lose_none_and_outlive_the_end_of_the_server(
    programs: Programs,
) -> None:
    # In real time: a program of another process reads nothing ahead under a virtual clock.
    with QueueManager("QM1") as manager:
        served = Served(manager)
        program = programs.started(served.port, programs.compiled("streams"), stdin=subprocess.PIPE)
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        served.server.close()
        # A second send to a socket that its peer has closed raises SIGPIPE.
        output, errors = program.communicate("\n", timeout=PROGRAM_SECONDS)
    assert (program.returncode, output) == (0, "ok\n"), errors


def test_no_call_by_chance_crashes_a_program(programs: Programs, served: Served) -> None:
    programs.run(served, "fuzz", "1500", "1")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 10))
def test_many_calls_by_chance_crash_no_program(
    programs: Programs, served: Served, seed: int
) -> None:
    programs.run(served, "fuzz", "20000", str(seed))


@pytest.mark.soak
@pytest.mark.parametrize("name", ["verbs", "topics_and_properties", "threads", "fuzz"])
def test_the_library_reads_and_writes_nothing_beyond_its_memory(
    name: str, programs: Programs, served: Served, tmp_path: Path
) -> None:
    program = programs.sanitized(name, tmp_path)
    started = programs.started(served.port, program, "5000", "99")
    output, errors = started.communicate(timeout=PROGRAM_SECONDS)
    assert (started.returncode, output) == (0, "ok\n"), errors


def test_the_compiled_wheel_has_the_library(tmp_path: Path, programs: Programs) -> None:
    [library] = c_library(ROOT, tmp_path)
    assert library == tmp_path / "mayfly/pymqi/libmqm/lib/libmqm_r.so"
    loaded = ctypes.CDLL(str(library))
    assert all(hasattr(loaded, name) for name in entry_points.__all__)


def test_without_a_compiler_a_line_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-cc")
    assert c_library(ROOT, tmp_path) == []
    why = "libmqm needs a C compiler: there is no no-such-cc"
    assert capsys.readouterr().err == f"libmqm is left out: {why}\n"
    refused = CliRunner().invoke(app, ["libmqm", "env", "--folder", str(tmp_path / "none")])
    assert (refused.exit_code, refused.stderr) == (2, f"mayfly: {why}\n")


def test_env_prints_what_a_shell_evaluates(programs: Programs) -> None:
    shown = CliRunner().invoke(app, ["libmqm", "env", "--folder", str(programs.installed)])
    assert shown.exit_code == 0
    said = subprocess.run(
        ["sh", "-c", f'{shown.stdout}\necho "$MQ_FILE_PATH:$MAYFLY_LIBPYTHON"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"{programs.installed}:{python_library()}\n"
    as_json = CliRunner().invoke(
        app, ["libmqm", "env", "--folder", str(programs.installed), "--json"]
    )
    assert json.loads(as_json.stdout)["MQ_INSTALLATION_PATH"] == str(programs.installed)


def test_a_program_without_python_says_which_variable_is_missing(
    programs: Programs, served: Served
) -> None:
    program = programs.compiled("verbs")
    environment = {**programs.environment}
    del environment["MAYFLY_LIBPYTHON"]
    done = subprocess.run(
        [program], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert 'MAYFLY_LIBPYTHON is not set: eval "$(mayfly libmqm env)" sets it' in done.stderr
