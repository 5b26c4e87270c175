"""``verify`` reads every file of a folder, and names the one that is damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.developer import developer_users, self_signed_certificate
from mayfly.admin.security.users import Users, users_of
from mayfly.mqi.errors import StoreDamaged
from mayfly.testing import VirtualClock
from tests.facts import wait_until

DEFINITIONS = """
DEFINE QLOCAL(Q1) DEFPSIST(YES)
DEFINE CHANNEL(APP) CHLTYPE(CLNTCONN) CONNAME('mq.example(1414)') QMNAME(QM1)
"""


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[QueueManager]:
    """QM1 with all files that a folder can have while a server has it open."""
    with QueueManager("QM1", tmp_path, VirtualClock()) as opened:
        assert opened.mqsc(DEFINITIONS).ok
        developer_users(users_of(opened.engine), tmp_path, {})
        self_signed_certificate(tmp_path, ["localhost"], opened.now_ms())
        (tmp_path / "token").write_text("a-token\n")
        with opened.session() as session, opened.session(transacted=True) as queue_state:
            for _ in range(8):
                session.put("Q1", b"x" * 100_000)
            assert queue_state.get("Q1") is not None
            # The ballast is laid in beside the puts.
            wait_until((tmp_path / "ballast").exists)
            wait_until(lambda: opened.verify().ok)
            yield opened


def flipped(file: Path, place: int) -> None:
    """Change one bit of a file in its place, as a disk does."""
    with file.open("r+b") as content:
        content.seek(place)
        before = content.read(1)
        content.seek(place)
        content.write(bytes([before[0] ^ 1]))


#: A file, and where one bit of it changes. Entries of gets are taken from the end.
FILES = {
    "mayfly.db-wal": 32 + 24 + 4_120 * 20 + 100,
    "mayfly.db-gets": 65_536 - 8,
    "identity.json": 30,
    "ballast": 5_000_000,
    "users.json": 60,
    "ccdt.json": 60,
    "developer.json": 0,
    "developer-cert.pem": 200,
    "developer-key.pem": 60,
    "token": 1,
}


@pytest.mark.parametrize("name", FILES)
def test_verify_names_the_file_in_which_a_bit_has_changed(
    manager: QueueManager, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    if name == "token":
        # Without a checksum: what no token can be.
        file.write_bytes(b"a\xfftoken\n")
    else:
        flipped(file, FILES[name])
    found = manager.verify()
    if name == "mayfly.db-gets":
        flipped(file, FILES[name])
    assert not found.ok
    assert all(str(file) in problem for problem in found.problems), found.problems


def test_every_file_of_a_folder_is_known(manager: QueueManager, tmp_path: Path) -> None:
    """A file of a new kind comes with its check."""
    checked = {*FILES, "mayfly.db"}
    #: An index of the log that is made anew, and a file that is locked and empty.
    without_content = {"mayfly.db-shm", "users.lock"}
    assert {file.name for file in tmp_path.iterdir()} == checked | without_content
    assert manager.verify().ok


def test_verify_reads_files_that_are_not_its_own(manager: QueueManager, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("of the operator")
    (tmp_path / "folder").mkdir()
    assert manager.verify().ok


def locks_on(file: Path) -> list[str]:
    """The locks that processes have on a file, without their numbers."""
    facts = file.stat()
    device = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}:{facts.st_ino}"
    lines = Path("/proc/locks").read_text("ascii").splitlines()
    return sorted(line.split(maxsplit=1)[1] for line in lines if device in line.split())


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks")
def test_verify_keeps_the_locks_of_the_database(manager: QueueManager, tmp_path: Path) -> None:
    """Without them another process that reads the folder takes itself for the last one."""
    files = [tmp_path / "mayfly.db", tmp_path / "mayfly.db-shm"]
    before = [locks_on(file) for file in files]
    assert all(before)
    assert manager.verify().ok
    assert [locks_on(file) for file in files] == before


def opened(folder: Path) -> None:
    with QueueManager("QM1", folder):
        pass


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content["users"]["anna"].update(groups=["mqm"]),
        lambda content: content["users"].pop("anna"),
        lambda content: content.update(checksum="0" * 64),
        lambda content: content.update(checksun=content.pop("checksum")),
    ],
)
def test_an_opening_is_refused_by_the_name_of_a_damaged_file_of_users(
    tmp_path: Path, damage: Callable[[dict[str, object]], object]
) -> None:
    opened(tmp_path)
    Users(tmp_path).add("anna", "secret", ["staff"])
    file = tmp_path / "users.json"
    whole = file.read_text()
    content = json.loads(whole)
    damage(content)
    file.write_text(json.dumps(content))
    with pytest.raises(StoreDamaged, match=r"users\.json"):
        opened(tmp_path)
    assert json.loads(file.read_text()) == content, "it is left as it is"
    file.write_text(whole)
    opened(tmp_path)


def test_a_file_of_users_of_an_older_mayfly_has_no_checksum(tmp_path: Path) -> None:
    Users(tmp_path).add("anna", "secret", ["staff"])
    file = tmp_path / "users.json"
    content = json.loads(file.read_text())
    del content["checksum"]
    file.write_text(json.dumps(content))
    opened(tmp_path)
    Users(tmp_path).change("anna", groups=["other"])
    assert "checksum" in json.loads(file.read_text())


def test_a_log_that_is_begun_anew_is_whole(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)").ok
        with manager.session() as session:
            for _ in range(3):
                for _ in range(5):
                    session.put("Q1", b"x" * 10_000)
                assert manager.verify().ok
                log = manager.engine.store._log
                assert log is not None
                with log.guard:
                    assert log.write_back()
                assert manager.verify().ok
