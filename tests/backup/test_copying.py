"""A backup and what is restored from it: whole or not at all, as it was, and of which moment."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.users import Users
from mayfly.mqi.errors import StoreDamaged, StoreError
from mayfly.store.backup import copying, objects
from mayfly.store.backup.copying import Copied, Copier
from mayfly.store.backup.objects import (
    ChangeName,
    EpochContents,
    FolderPlace,
    NoRoom,
    Secrets,
    chain,
)
from mayfly.store.backup.restoring import Restored, plan_of, restore
from mayfly.store.database import DATABASE_FILE
from mayfly.store.followers import followers_of
from tests.store.scene import raw


def quiet(_done: int, _all: int) -> None:
    """Say nothing of the progress."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a closed queue manager with 40 messages."""
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder) as qm, qm.session() as session:
        qm.define_queue("Q1")
        for _ in range(40):
            session.put("Q1", os.urandom(30_000), persistent=True)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "place"


def back_up(folder: Path, place: Path, passphrase: str | None = None) -> Copied:
    return Copier(folder, "QM1", str(place), Secrets(passphrase), "0").back_up(quiet)


def restored(
    place: Path,
    folder: Path,
    *,
    is_new_instance: bool = True,
    passphrase: str | None = None,
    as_of_ms: int | None = None,
) -> Restored:
    plan = plan_of(str(place), as_of_ms)
    return restore(
        str(place),
        plan,
        folder,
        is_new_instance=is_new_instance,
        passphrase=passphrase,
        say=quiet,
    )


def bodies(folder: Path) -> list[bytes]:
    with QueueManager("QM1", folder) as qm:
        assert qm.verify().ok
        return [message.body for message in qm.session().browse("Q1")]


def instance_of(folder: Path) -> str:
    return str(json.loads((folder / "identity.json").read_text())["instance"])


def test_a_restored_folder_has_the_same_messages_and_a_new_instance(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    back_up(folder, place)
    new, same = tmp_path / "NEW", tmp_path / "SAME"
    restored(place, new)
    restored(place, same, is_new_instance=False)
    assert instance_of(same) == instance_of(folder) != instance_of(new)
    assert bodies(new) == bodies(same) == bodies(folder)
    # Nobody follows.
    assert followers_of(folder) == []


def test_what_belongs_to_the_process_and_the_disk_is_not_copied(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    for name in (
        "served.json",
        "ballast",
        "users.lock",
        # Of another moment it would name a row of the log that the database does not have.
        "replica",
        "figures.db",
        "everyplace.db",
        "everyplace.db-wal",
    ):
        (folder / name).write_bytes(b"x")
    (folder / "applied.json").write_bytes(b"{}")
    copied = back_up(folder, place)
    restored(place, tmp_path / "NEW")
    found = {file.name for file in (tmp_path / "NEW").iterdir()}
    assert found == {DATABASE_FILE, "identity.json", "applied.json"}
    assert copied.left_out == ["everyplace.db"]


def test_users_are_sealed_by_a_passphrase_or_left_out(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    Users(folder).add("app", "a password of app", [])
    written = (folder / "users.json").read_bytes()
    back_up(folder, place, "open sesame")
    assert all(b"argon2" not in (place / name).read_bytes() for name in FolderPlace(place).names())
    for wrong in (None, "open barley"):
        with pytest.raises(StoreError, match="passphrase"):
            restored(place, tmp_path / "NEW", passphrase=wrong)
    assert not (tmp_path / "NEW").exists()
    assert restored(place, tmp_path / "NEW", passphrase="open sesame").files == ["users.json"]
    assert (tmp_path / "NEW" / "users.json").read_bytes() == written
    assert back_up(folder, place).left_out == ["users.json"]
    assert restored(place, tmp_path / "WITHOUT").files == []


def test_a_backup_that_was_broken_off_is_none_and_the_next_one_goes_on(
    folder: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PIECE_PAGES", 100)

    def break_off(done: int, _all: int) -> None:
        """As a kill does, after two pieces."""
        if done == 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Copier(folder, "QM1", str(place), Secrets(None), "0").back_up(break_off)
    with pytest.raises(StoreError, match="broken off"):
        restored(place, tmp_path / "NEW")
    assert back_up(folder, place).reused_pieces == 2
    restored(place, tmp_path / "NEW")
    assert bodies(tmp_path / "NEW") == bodies(folder)


def test_a_disk_with_little_room_ends_the_backup_and_keeps_nothing_of_it(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "RESERVED_BYTES", 2**60)
    with pytest.raises(NoRoom, match="bytes free"):
        back_up(folder, place)
    assert FolderPlace(place).names() == []


def test_a_page_with_a_wrong_checksum_is_no_backup(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    whole = bytearray((folder / DATABASE_FILE).read_bytes())
    whole[20 * 4_096 + 7] ^= 1
    (folder / DATABASE_FILE).write_bytes(whole)
    with pytest.raises(StoreDamaged, match="checksum of page 21 is wrong"):
        back_up(folder, place)
    with pytest.raises(StoreError):
        restored(place, tmp_path / "NEW")


def test_a_changed_or_missing_object_is_damage_and_nothing_is_made(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    back_up(folder, place)
    for number, name in enumerate(FolderPlace(place).names()):
        copy = Path(shutil.copytree(place, tmp_path / str(number)))
        content = bytearray((copy / name).read_bytes())
        content[len(content) // 2] ^= 1
        (copy / name).write_bytes(content)
        if "files/" in name:
            continue
        with pytest.raises(StoreDamaged):
            restored(copy, tmp_path / "NEW")
        (copy / name).unlink()
        with pytest.raises(StoreError):
            restored(copy, tmp_path / "NEW")
        assert not (tmp_path / "NEW").exists()


def test_nothing_is_restored_over_a_folder(folder: Path, place: Path) -> None:
    back_up(folder, place)
    before = bodies(folder)
    with pytest.raises(StoreError, match="not empty"):
        restored(place, folder)
    assert bodies(folder) == before


def test_a_folder_that_is_open_here_is_not_read(folder: Path, place: Path) -> None:
    with (
        QueueManager("QM1", folder),
        pytest.raises(StoreError, match="open in this process"),
    ):
        back_up(folder, place)


def test_a_place_holds_the_backups_of_one_queue_manager(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    back_up(folder, place)
    other = tmp_path / "QM2"
    QueueManager("QM2", other).close()
    with pytest.raises(StoreError, match="is a backup of queue manager QM1, not QM2"):
        Copier(other, "QM2", str(place), Secrets(None), "0")


def test_a_log_that_a_power_cut_has_left_is_in_the_backup(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    """Neither the index of the log nor a process is there."""
    connection = raw(folder)
    connection.execute("DELETE FROM message WHERE k = (SELECT max(k) FROM message)")
    left = Path(tmp_path / "LEFT")
    shutil.copytree(folder, left)
    connection.close()
    (left / f"{DATABASE_FILE}-shm").unlink()
    back_up(left, place)
    restored(place, tmp_path / "NEW")
    new = raw(tmp_path / "NEW")
    assert new.execute("SELECT count(*) FROM message").fetchall() == [(39,)]
    new.close()


def test_the_state_of_a_moment_is_that_of_the_changes_before_it(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    first = back_up(folder, place)
    with QueueManager("QM1", folder) as qm:
        qm.session().put("Q1", b"later", persistent=True)
    second = back_up(folder, place)
    assert second.began_ms > first.safe_at_ms
    restored(place, tmp_path / "OLD", as_of_ms=first.safe_at_ms)
    restored(place, tmp_path / "NEW")
    assert (len(bodies(tmp_path / "OLD")), len(bodies(tmp_path / "NEW"))) == (40, 41)
    with pytest.raises(StoreError, match="holds nothing as of"):
        plan_of(str(place), first.safe_at_ms - 1)


@pytest.mark.parametrize(
    ("until_ms", "numbers"),
    [(None, [(1, 3), (4, 4)]), (30, [(1, 3)]), (29, [(1, 1), (2, 2)]), (9, [])],
)
def test_a_merged_change_stands_for_its_parts(
    until_ms: int | None, numbers: Sequence[tuple[int, int]]
) -> None:
    parts = [ChangeName(number, number, 10 * number) for number in (1, 2, 3, 4)]
    found = chain([*parts, ChangeName(1, 3, 30)], until_ms)
    assert [(change.first, change.last) for change in found] == numbers


def test_backups_of_the_last_seven_days_are_kept(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(folder, place)
    second = back_up(folder, place)
    assert len(EpochContents(FolderPlace(place)).whole) == 2
    monkeypatch.setattr(copying, "_KEPT_MS", -1)
    third = back_up(folder, place)
    assert EpochContents(FolderPlace(place)).whole == [third.began_ms]
    assert second.began_ms < third.began_ms
