"""``mayfly qm``: queue managers are made, started, listed, stopped and deleted."""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.qm import LOG_FILE
from mayfly.cli.served import is_served
from mayfly.engine import PLATFORMS
from mayfly.servers.figure_history import FIGURES_FILE
from mayfly.store.folder_lock import holder_of
from tests.cli.conftest import COMMAND, Invoke, environment, run_process
from tests.facts import wait_until
from tests.pages import part


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_a_queue_manager_is_made_for_its_platform(
    mayfly: Invoke, home: Path, platform: str
) -> None:
    options = "--command-level", "930", "--setting", "expiry.max_check=always"
    made = mayfly("qm", "create", "QM1", "--platform", platform, *options)
    assert (made.exit_code, made.stdout) == (0, "")
    assert made.stderr == f"mayfly: made queue manager QM1 in {home / 'QM1'}\n"
    with QueueManager("QM1", home / "QM1") as qm:
        assert (qm.engine.platform, qm.engine.command_level) == (platform, 930)
        assert qm.engine.settings.given == {"expiry.max_check": "always"}
        assert qm.engine.settings.in_force["xqh.check_expiry"] == (platform != "ibmi")
        is_staging_defined = qm.mqsc("DISPLAY QLOCAL(SYSTEM.DDELAY.LOCAL.QUEUE)").ok
        assert is_staging_defined == (platform != "zos")


def test_one_that_is_there_stays_as_it_is(mayfly: Invoke, home: Path) -> None:
    folder = home / "elsewhere"
    assert mayfly("qm", "create", "QM1", "--path", str(folder)).exit_code == 0
    again = mayfly("qm", "create", "QM1", "--path", str(folder), "--platform", "zos")
    assert again.exit_code == 3
    assert again.stderr == (
        f"mayfly: MQRC_OBJECT_ALREADY_EXISTS (2100): there is a queue manager in {folder}; "
        "ALTER SETTING changes what it was made with\n"
    )
    with QueueManager("QM1", folder) as qm:
        assert qm.engine.platform == "distributed"


def test_a_wrong_platform_or_name_makes_nothing(mayfly: Invoke, home: Path) -> None:
    wrong = mayfly("qm", "create", "QM1", "--platform", "vms")
    assert (wrong.exit_code, "'vms'" in wrong.stderr) == (2, True)
    assert mayfly("qm", "create", "a b").exit_code == 3
    assert not (home / "QM1" / "mayfly.db").exists()


@pytest.fixture
def started(home: Path) -> Iterator[Path]:
    """The folder of QM1, whose server is killed at the end if it still runs."""
    folder = home / "QM1"
    yield folder
    process = holder_of(folder) if folder.exists() else None
    if process is not None and process != os.getpid():
        os.kill(process, signal.SIGKILL)


@pytest.mark.slow
def test_a_queue_manager_is_started_listed_stopped_and_deleted(
    mayfly: Invoke, home: Path, started: Path
) -> None:
    script = "DEFINE QLOCAL(Q1) DEFPSIST(YES)"
    assert mayfly("mqsc", "QM1", "-c", script).exit_code == 0
    assert mayfly("put", "QM1", "Q1", "x").exit_code == 0
    assert mayfly("put", "QM1", "Q1", "x", "--delay", "1h").exit_code == 0
    assert mayfly("qm", "create", "QM2").exit_code == 0
    start = run_process(home, "qm", "start", "QM1", "--http", "127.0.0.1:0", "--json")
    assert start.returncode == 0, start.stderr
    [one] = json.loads(start.stdout)
    assert (one["state"], one["depth"], one["delayed"]) == ("ready", 1, 1)
    assert one["process_id"] == holder_of(started)
    assert "http listens on" in (started / LOG_FILE).read_text()

    again = run_process(home, "qm", "start", "QM1")
    assert (again.returncode, "is served already, by process" in again.stderr) == (4, True)
    listed = json.loads(mayfly("qm", "list", "--json").stdout)
    assert [(each["queue_manager"], each["state"], each["depth"]) for each in listed] == [
        ("QM1", "ready", 1),
        ("QM2", "stopped", None),
    ]
    refused = mayfly("qm", "delete", "QM1", "--yes")
    assert (refused.exit_code, "stop it first" in refused.stderr) == (4, True)

    stopped = mayfly("qm", "stop", "QM1")
    assert stopped.exit_code == 0, stopped.stderr
    assert not is_served(started)
    assert holder_of(started) is None
    assert (started / FIGURES_FILE).exists()
    assert mayfly("qm", "stop", "QM1").exit_code == 1
    assert mayfly("get", "QM1", "Q1").exit_code == 0
    assert mayfly("qm", "delete", "QM1", "--yes").exit_code == 0
    assert not started.exists()


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why(mayfly: Invoke, home: Path, started: Path) -> None:
    assert mayfly("qm", "create", "QM1").exit_code == 0
    failed = run_process(home, "qm", "start", "QM1", "--http", "nowhere")
    assert failed.returncode == 5
    assert "QM1 has not started: " in failed.stderr
    assert "nowhere" in failed.stderr
    assert not is_served(started)


@pytest.mark.slow
def test_a_server_is_stopped_only_with_all_its_queue_managers(
    mayfly: Invoke, home: Path, started: Path
) -> None:
    (home / "config.toml").write_text(
        '[[queue_manager]]\nname = "QM1"\n[[queue_manager]]\nname = "QM2"\n'
    )
    server = [*COMMAND, "serve", str(home / "config.toml")]
    with subprocess.Popen(server, env=environment(home), stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: mayfly("ping", "QM2").exit_code == 0)
        alone = mayfly("qm", "stop", "QM1")
        assert alone.exit_code == 2
        assert alone.stderr == "mayfly: QM1 is served together with QM2: name them all\n"
        assert mayfly("qm", "stop", "QM1", "QM2").exit_code == 0
        assert process.wait() == 0


def test_a_queue_manager_is_deleted_by_a_yes_and_foreign_files_stay(
    mayfly: Invoke, home: Path
) -> None:
    assert mayfly("qm", "create", "QM1").exit_code == 0
    (home / "QM1" / "notes.txt").write_text("mine")
    kept = mayfly("qm", "delete", "QM1", input="n\n")
    assert (kept.exit_code, "nothing is deleted" in kept.stderr) == (1, True)
    with QueueManager("QM1", home / "QM1"):
        in_use = mayfly("qm", "delete", "QM1", "--yes")
        assert (in_use.exit_code, f"process {os.getpid()}" in in_use.stderr) == (4, True)
        shown = mayfly("qm", "status", "QM1")
        assert f"open in process {os.getpid()}" in shown.stdout
        assert mayfly("qm", "stop", "QM1").exit_code == 4
    deleted = mayfly("qm", "delete", "QM1", input="y\n")
    assert (deleted.exit_code, "stays: notes.txt in it" in deleted.stderr) == (0, True)
    assert [file.name for file in (home / "QM1").iterdir()] == ["notes.txt"]
    assert mayfly("qm", "delete", "QM1", "--yes").exit_code == 3
    assert mayfly("qm", "list").exit_code == 1


@pytest.mark.slow
@pytest.mark.long
def test_the_commands_in_the_documentation_do_what_they_say(home: Path, started: Path) -> None:
    text = part("SERVING.md", "The server").partition("# The queue managers of a machine\n")[2]
    commands = re.findall(r"^\$ mayfly (qm .*)$", text.partition("```console")[2], re.MULTILINE)
    assert [command.split()[1] for command in commands] == [
        *("create", "start", "list", "stop", "delete")
    ]
    said = [run_process(home, *shlex.split(command)) for command in commands]
    assert [each.returncode for each in said] == [0] * 5, said
    states = [re.findall(r"^QM1 +(\w+)", each.stdout, re.MULTILINE) for each in said[1:4]]
    assert states == [["ready"], ["ready"], ["stopped"]]
    assert not started.exists()
