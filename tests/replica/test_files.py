"""Users and settings of a folder go to the next owner, and nothing of another folder comes back."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mayfly.admin.security.users import Users
from mayfly.cli.outcomes import ExitCode
from mayfly.mqi.errors import StoreDamaged
from mayfly.runtime import Runtime
from mayfly.store.replica.files import SHARED_FILES, SharedFiles
from mayfly.store.replica.follower import Follower
from mayfly.store.replica.log import Fenced, PostgresLog
from tests.facts import wait_until
from tests.postgres import connect
from tests.replica.test_replica import end_lease, opened
from tests.replica.test_standby import add_user

#: An owner that writes no file into the log by itself, until it is killed.
OWNER = """
import sys, threading
from tests.replica.test_replica import opened
from pathlib import Path
with opened(sys.argv[1], Path(sys.argv[2])):
    print("ready", flush=True)
    threading.Event().wait()
"""


def followed(url: str, folder: Path) -> dict[str, bytes]:
    """Bring a folder to the end of the log once; return its shared files."""
    with contextlib.closing(Follower(url, "QM1", folder, Runtime())) as follower:
        follower.catch_up()
    return shared_of(folder)


def shared_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in SHARED_FILES if (folder / name).exists()}


def test_a_follower_gets_each_file_as_it_is_changed_at_the_owner_and_its_removal(
    url: str, tmp_path: Path
) -> None:
    folder, other = tmp_path / "QM1", tmp_path / "other"
    with opened(url, folder) as qm:
        assert qm.engine.replica is not None
        hurry = qm.engine.replica.lease.announce
        follower = Follower(url, "QM1", other, Runtime())

        def is_same() -> bool:
            follower.catch_up()
            return shared_of(other) == shared_of(folder)

        Users(folder).add("anna", "secret", ["staff"])
        (folder / "token").write_text("a token")
        (folder / "stranger.json").write_text("{}")
        hurry({})
        wait_until(is_same)
        assert shared_of(other).keys() == {"users.json", "token"}
        assert (other / "users.json").stat().st_mode & 0o777 == 0o600
        assert not (other / "stranger.json").exists()
        # What is there already is not written again.
        first = (other / "users.json").stat().st_ino
        Users(folder).change("anna", groups=["others"])
        (folder / "token").unlink()
        hurry({})
        wait_until(is_same)
        assert not (other / "token").exists()
        changed = (other / "users.json").stat().st_ino
        assert changed != first
        follower.close()
        followed(url, other)
        assert (other / "users.json").stat().st_ino == changed
        # Nothing is waited for: an owner that ends leaves what is in the log.
        Users(folder).add("bert", "secret")
    with opened(url, other) as qm:
        assert [user.name for user in Users(other).all()] == ["anna", "bert"]
        Users(other).remove("anna")
    with opened(url, folder):
        assert [user.name for user in Users(folder).all()] == ["bert"]


def test_a_change_before_a_kill_counts_when_the_same_folder_is_opened_again(
    url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "QM1"
    command = [sys.executable, "-c", OWNER, url, str(folder)]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"ready\n"
    Users(folder).add("anna", "secret")
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    # The folder of the last owner follows before it is opened.
    assert followed(url, folder).keys() == {"users.json"}
    assert followed(url, tmp_path / "other") == {}
    opened(url, folder).close()
    assert followed(url, tmp_path / "other") == shared_of(folder)


def test_files_that_another_owner_has_changed_replace_those_of_an_old_owner(
    url: str, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    first = opened(url, old)
    end_lease(url)
    with opened(url, new):
        Users(new).add("anna", "secret")
        # What is written into the folder of an old owner is in no log.
        Users(old).add("lost", "secret")
        log = PostgresLog(url, "QM1", Runtime())
        with pytest.raises(Fenced, match="epoch 2 is over"):
            SharedFiles(old, {}).write_changed(log, first.engine.store.database.instance_id, 2)
        log.close()
        first.close()
    with opened(url, old):
        assert [user.name for user in Users(old).all()] == ["anna"]


def test_users_are_changed_in_the_folder_of_an_owner_that_runs_and_in_no_other(
    url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "QM1"
    with opened(url, folder):
        assert not add_user("anna", folder).returncode
    refused = add_user("berta", folder)
    assert refused.returncode == ExitCode.PIPELINE
    assert "has a replica, and no owner has it open" in refused.stderr
    assert [user.name for user in Users(folder).all()] == ["anna"]


def test_files_of_a_folder_that_the_log_never_had_stay_and_go_into_it(
    url: str, tmp_path: Path
) -> None:
    opened(url, tmp_path / "QM1").close()
    (tmp_path / "other").mkdir()
    Users(tmp_path / "other").add("anna", "secret")
    opened(url, tmp_path / "other").close()
    assert followed(url, tmp_path / "QM1") == shared_of(tmp_path / "other")
    with connect(url) as connection:
        connection.execute("UPDATE mayfly.replica_file SET content = 'x' WHERE name = 'users.json'")
    with pytest.raises(StoreDamaged, match=r"users.json in the log of QM1 is damaged"):
        followed(url, tmp_path / "third")
