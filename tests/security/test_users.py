"""Users of a queue manager: their file, their hashes, and what is refused."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

import mayfly
from mayfly.admin.security.users import FILE, User, Users, hashed, is_right, users_of
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreDamaged


@pytest.mark.usefixtures("costly_passwords")
def test_a_hash_is_argon2id_with_19_MiB_and_two_rounds_and_a_salt_of_its_own() -> None:
    first, second = hashed("secret"), hashed("secret")
    assert first.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert first != second
    assert is_right("secret", first)
    assert is_right("secret", second)
    assert not is_right("Secret", first)
    assert not is_right("secret", "")
    assert not is_right("secret", "no hash")


def test_the_file_is_private_replaced_at_once_and_holds_no_password(tmp_path: Path) -> None:
    users = Users(tmp_path)
    assert users.all() == []
    users.add("anna", "secret", ["staff", "ops", "staff"])
    users.add("bob", "other")
    before = (tmp_path / FILE).stat()
    assert before.st_mode & 0o777 == 0o600
    text = (tmp_path / FILE).read_text()
    assert "secret" not in text
    assert list(json.loads(text)["users"]) == ["anna", "bob"]
    users.change("bob", groups=["staff"])
    assert (tmp_path / FILE).stat().st_ino != before.st_ino
    assert [(u.name, u.groups) for u in Users(tmp_path).all()] == [
        ("anna", ("staff", "ops")),
        ("bob", ("staff",)),
    ]
    assert "argon2" not in repr(users.all())
    users.remove("anna")
    assert Users(tmp_path).find("anna") is None


def test_a_change_leaves_the_rest_of_a_user_as_it_was(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.add("anna", "secret", ["staff"])
    found = users.find("anna")
    assert found is not None
    users.change("anna", groups=[])
    users.change("anna", password="new")
    changed = users.find("anna")
    assert changed is not None
    assert changed.groups == ()
    assert changed.password_hash != found.password_hash
    assert is_right("new", changed.password_hash)


def test_users_are_named_once_and_wrong_values_are_refused(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.add("anna", "secret")
    for name in ("", "a b", "thirteenchars", "ä", "*MQADMIN"):
        with pytest.raises(ValueError, match="is not 1 to 12 characters"):
            users.add(name, "secret")
    for password in ("", "x" * 1025, "ä" * 513):
        with pytest.raises(ValueError, match="a password has 1 to 1024 bytes"):
            users.change("anna", password=password)
    with pytest.raises(ValueError, match="group 'a b' is not"):
        users.change("anna", groups=["a b"])
    with pytest.raises(MQError) as caught:
        users.add("anna", "other")
    assert caught.value.reason == rc.MQRC_OBJECT_ALREADY_EXISTS
    for change in (users.remove, users.change):
        with pytest.raises(MQError) as caught:
            change("bob")
        assert caught.value.reason == rc.MQRC_UNKNOWN_OBJECT_NAME
    assert [user.name for user in users.all()] == ["anna"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"version": 2, "users": {}}',
        '{"version": 1}',
        '{"version": 1, "users": {"anna": {}}}',
        '{"version": 1, "users": []}',
    ],
)
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    users = Users(tmp_path)
    for call in (users.all, lambda: users.add("anna", "secret")):
        with pytest.raises(StoreDamaged) as caught:
            call()
        assert caught.value.path == tmp_path / FILE
    assert (tmp_path / FILE).read_text() == content


@pytest.mark.slow
def test_two_writers_at_a_time_lose_nobody(tmp_path: Path) -> None:
    def add(prefix: str) -> None:
        users = Users(tmp_path)
        for n in range(4):
            users.add(f"{prefix}{n}", "secret")

    threads = [threading.Thread(target=add, args=(prefix,)) for prefix in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Users(tmp_path).all()) == 12


def test_a_file_of_the_same_second_and_size_is_seen_as_another_one(tmp_path: Path) -> None:
    writer, reader = Users(tmp_path), Users(tmp_path)
    writer.add("anna", "secret", ["one"])
    stamp = (tmp_path / FILE).stat().st_mtime_ns
    assert reader.find("anna") == writer.find("anna")
    writer.change("anna", groups=["two"])
    os.utime(tmp_path / FILE, ns=(stamp, stamp))
    found = reader.find("anna")
    assert found is not None
    assert found.groups == ("two",)


def test_a_queue_manager_in_memory_keeps_its_users_in_memory() -> None:
    with mayfly.QueueManager("QM1") as qm, mayfly.QueueManager("QM2") as other:
        users_of(qm.engine).add("anna", "secret", ["staff"])
        found = users_of(qm.engine).find("anna")
        assert isinstance(found, User)
        assert found.groups == ("staff",)
        assert users_of(other.engine).all() == []


def test_a_queue_manager_with_a_folder_has_its_users_there(tmp_path: Path) -> None:
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        users_of(qm.engine).add("anna", "secret")
    assert [user.name for user in Users(tmp_path).all()] == ["anna"]
