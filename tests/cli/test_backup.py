"""``mayfly backup``, ``restore``, and what ``qm status`` says of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mayfly.cli.outcomes import ExitCode
from mayfly.runtime import SystemClock
from tests.cli.conftest import Invoke
from tests.facts import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(mayfly: Invoke, tmp_path: Path) -> Path:
    folder = tmp_path / "QM1"
    assert mayfly("qm", "create", "QM1", "--path", str(folder)).exit_code == 0
    assert (
        mayfly("mqsc", "QM1", "--path", str(folder), "-c", "DEFINE QL(Q1) DEFPSIST(YES)").exit_code
        == 0
    )
    return folder


def test_the_same_instance_is_restored_only_where_what_that_means_is_accepted(
    mayfly: Invoke, folder: Path, tmp_path: Path
) -> None:
    place, same = str(tmp_path / "place"), str(tmp_path / "SAME")
    assert mayfly("backup", "QM1", place, "--path", str(folder)).exit_code == 0
    refused = mayfly("restore", place, same, "--same-instance")
    assert refused.exit_code == ExitCode.USAGE
    assert "got since are there again" in refused.stderr
    assert not Path(same).exists()
    accepted = mayfly("restore", place, same, "--same-instance", "--accept-restored", "--json")
    found = json.loads(accepted.stdout)
    assert found["instance"] == json.loads((folder / "identity.json").read_text())["instance"]
    assert (found["queue_manager"], found["verify"]["problems"]) == ("QM1", [])


def test_secrets_are_sealed_or_left_out_by_an_option(
    mayfly: Invoke, folder: Path, tmp_path: Path
) -> None:
    (folder / "token").write_text("secret\n")
    place, back_up = str(tmp_path / "place"), ("backup", "QM1", str(tmp_path / "place"))
    refused = mayfly(*back_up, "--path", str(folder))
    assert refused.exit_code == ExitCode.USAGE
    assert "token hold secrets" in refused.stderr
    (tmp_path / "phrase").write_text("open sesame\nnot this line\n")
    sealed = ("--passphrase-file", str(tmp_path / "phrase"))
    assert mayfly(*back_up, "--path", str(folder), *sealed).exit_code == 0
    assert mayfly("restore", place, str(tmp_path / "A")).exit_code == ExitCode.FILE
    assert mayfly("restore", place, str(tmp_path / "A"), *sealed).exit_code == 0
    assert (tmp_path / "A" / "token").read_text() == "secret\n"


@pytest.mark.parametrize("moment", ["half past two", "25:00"])
def test_a_moment_that_is_none_is_named(
    mayfly: Invoke, folder: Path, tmp_path: Path, moment: str
) -> None:
    place = str(tmp_path / "place")
    assert mayfly("backup", "QM1", place, "--path", str(folder)).exit_code == 0
    refused = mayfly("restore", place, str(tmp_path / "A"), "--as-of", moment)
    assert refused.exit_code == ExitCode.USAGE
    assert moment in refused.stderr


def test_a_killed_server_lost_no_more_than_status_has_shown(
    mayfly: Invoke, folder: Path, tmp_path: Path
) -> None:
    place, target = tmp_path / "place", str(tmp_path / "RESTORED")
    command = [sys.executable, "-m", "mayfly"]
    at = ("--path", str(folder))
    server = subprocess.Popen([*command, "serve", "QM1", *at], cwd=ROOT)
    follower = subprocess.Popen(
        [*command, "backup", "QM1", str(place), "--follow", "--without-secrets", *at],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    try:
        assert follower.stdout is not None
        assert b"is in" in follower.stdout.readline()
        put = mayfly("put", "QM1", "Q1", "kept", *at)
        assert put.exit_code == 0, put.output
        put_ms = SystemClock().now_ms()

        def is_safe() -> bool:
            """Return True if the put is shown to survive a loss."""
            shown = json.loads(mayfly("qm", "status", "QM1", "--json", *at).stdout)[0]["backups"][0]
            return bool(shown["safe_at_ms"] > put_ms)

        wait_until(is_safe)
        server.kill()
    finally:
        for process in (server, follower):
            process.kill()
            process.communicate()
    status = mayfly("qm", "status", "QM1", *at)
    assert status.exit_code == ExitCode.NOTHING
    assert "NOT RUNNING" in status.stdout
    assert mayfly("restore", str(place), target).exit_code == 0
    assert "kept" in mayfly("browse", "QM1", "Q1", "--path", target).stdout
