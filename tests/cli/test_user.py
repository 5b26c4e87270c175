"""``mayfly user``: users are added, changed, listed and removed, also while they are served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.users import FILE, Users, is_right, users_of
from tests.cli.conftest import Invoke, run_process


@pytest.fixture
def users(mayfly: Invoke, home: Path) -> Users:
    """Return the users of QM1, which is there."""
    assert mayfly("qm", "create", "QM1").exit_code == 0
    return Users(home / "QM1")


def test_a_user_is_added_changed_listed_and_removed(mayfly: Invoke, users: Users) -> None:
    added = mayfly(
        "user", "add", "QM1", "anna", "--group", "a", "--group", "b", "--password-stdin",
        input="secret\n",
    )  # fmt: skip
    assert (added.exit_code, added.stdout) == (0, "user anna added, groups: a, b\n")
    found = users.find("anna")
    assert found is not None
    assert is_right("secret", found.password_hash)
    changed = mayfly("user", "passwd", "QM1", "anna", "--password-stdin", input="new\n")
    assert changed.stdout == "user anna has a new password, groups: a, b\n"
    found = users.find("anna")
    assert found is not None
    assert is_right("new", found.password_hash)
    assert mayfly("user", "groups", "QM1", "anna", "c").exit_code == 0
    listed = mayfly("user", "list", "QM1")
    assert (listed.exit_code, listed.stdout) == (0, "anna          c\n")
    as_json = mayfly("user", "list", "QM1", "--json")
    assert json.loads(as_json.stdout) == [{"user": "anna", "groups": ["c"]}]
    assert mayfly("user", "groups", "QM1", "anna").stdout == "user anna has other groups\n"
    assert mayfly("user", "remove", "QM1", "anna").stdout == "user anna removed\n"
    assert mayfly("user", "list", "QM1").exit_code == 1


def test_wrong_calls_say_what_is_wrong(mayfly: Invoke, users: Users) -> None:
    users.add("anna", "secret")
    for arguments, exit_code, said in (
        (("add", "QM1", "anna"), 3, "MQRC_OBJECT_ALREADY_EXISTS (2100): user anna exists"),
        (("add", "QM1", "a b"), 2, "user 'a b' is not 1 to 12 characters"),
        (("passwd", "QM1", "bob"), 3, "there is no user bob"),
        (("add", "NONE", "anna"), 3, "MQRC_Q_MGR_NAME_ERROR (2058)"),
    ):
        result = mayfly("user", *arguments, "--password-stdin", input="pw\n")
        assert (result.exit_code, said in result.stderr) == (exit_code, True), result.stderr
    assert mayfly("user", "remove", "QM1", "bob").exit_code == 3
    empty = mayfly("user", "add", "QM1", "eva", "--password-stdin", input="\n")
    assert (empty.exit_code, "a password has 1 to 1024 bytes" in empty.stderr) == (2, True)
    alone = mayfly("user", "add", "QM1", "eva", input="pw\n")
    assert alone.exit_code == 2
    assert "give --password-stdin" in alone.stderr
    # There is no option for a password: everybody sees the arguments of a process.
    assert mayfly("user", "add", "QM1", "eva", "--password", "pw").exit_code == 2
    assert [one.name for one in users.all()] == ["anna"]


def test_a_damaged_file_of_users_is_named(mayfly: Invoke, users: Users, home: Path) -> None:
    (home / "QM1" / FILE).write_text("{")
    result = mayfly("user", "list", "QM1")
    assert result.exit_code == 4
    assert f"the file of users {home / 'QM1' / FILE} cannot be read" in result.stderr


@pytest.mark.slow
def test_users_change_while_another_process_has_the_queue_manager_open(home: Path) -> None:
    with QueueManager("QM1", home / "QM1") as qm:
        assert users_of(qm.engine).all() == []
        Users(home / "QM1").add("bob", "secret")
        gone = run_process(home, "user", "remove", "QM1", "bob")
        assert (gone.returncode, gone.stdout) == (0, "user bob removed\n")
        assert users_of(qm.engine).all() == []
