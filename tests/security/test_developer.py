"""What ``mayfly serve --dev`` defines: objects, users, rules and a certificate."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import mayfly
from mayfly.admin.security.admission import Admission, Applicant
from mayfly.admin.security.developer import (
    DEFINITIONS,
    PASSWORDS_FILE,
    developer_users,
    self_signed_certificate,
)
from mayfly.admin.security.users import Users, is_right, users_of
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, StoreDamaged
from mayfly.runtime import SystemClock

GIVEN = {"MAYFLY_APP_PASSWORD": "app-secret", "MAYFLY_ADMIN_PASSWORD": "admin-secret"}
DAY_MS = 86_400 * SECOND_MS


@pytest.fixture
def qm() -> Iterator[mayfly.QueueManager]:
    with mayfly.QueueManager("QM1", user="root") as manager:
        developer_users(users_of(manager.engine), None, GIVEN)
        result = manager.mqsc(DEFINITIONS)
        assert result.ok, result.text
        assert manager.mqsc("ALTER AUTHINFO(DEV.AUTHINFO) FAILDLAY(0)").ok
        yield manager


@pytest.fixture
def admission(qm: mayfly.QueueManager) -> Iterator[Admission]:
    made = Admission([qm.engine])
    yield made
    made.close()


def client(channel: str, user: str, password: str) -> Applicant:
    return Applicant(
        queue_manager="QM1", address="127.0.0.1", channel=channel, user=user, password=password
    )


def test_app_and_admin_come_in_by_their_channels_with_their_passwords(
    qm: mayfly.QueueManager, admission: Admission
) -> None:
    app = admission.admit(client("DEV.APP.SVRCONN", "app", "app-secret"))
    assert (app.user, app.groups, app.is_operator) == ("app", ("developers",), False)
    admin = admission.admit(client("DEV.ADMIN.SVRCONN", "admin", "admin-secret"))
    assert (admin.user, admin.is_operator) == ("admin", True)
    assert qm.mqsc("DEFINE CHANNEL(MINE) CHLTYPE(SVRCONN)").ok
    for channel, user, password in (
        ("DEV.APP.SVRCONN", "app", ""),
        ("DEV.APP.SVRCONN", "app", "admin-secret"),
        ("DEV.APP.SVRCONN", "admin", "admin-secret"),
        ("DEV.ADMIN.SVRCONN", "app", "app-secret"),
        ("DEV.ADMIN.SVRCONN", "admin", ""),
        ("MINE", "app", "app-secret"),
        ("SYSTEM.DEF.SVRCONN", "app", "app-secret"),
    ):
        with pytest.raises(MQError) as caught:
            admission.admit(client(channel, user, password))
        assert caught.value.reason == rc.MQRC_NOT_AUTHORIZED, (channel, user)


def test_app_uses_DEV_objects_and_no_others(qm: mayfly.QueueManager) -> None:
    with qm.session("app", groups=["developers"]) as session:
        for name in ("DEV.QUEUE.1", "DEV.QUEUE.2", "DEV.QUEUE.3", "DEV.DEAD.LETTER.QUEUE"):
            session.put(name, b"x")
            message = session.get(name)
            assert message is not None
            assert message.body == b"x"
        session.publish("dev/", b"x")
        for call in (
            lambda: session.put("SYSTEM.DEFAULT.LOCAL.QUEUE", b"x"),
            lambda: session.publish("other", b"x"),
        ):
            with pytest.raises(MQError) as caught:
                call()
            assert caught.value.reason == rc.MQRC_NOT_AUTHORIZED


def test_definitions_may_be_run_again(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc("ALTER QLOCAL(DEV.QUEUE.1) MAXDEPTH(7)").ok
    result = qm.mqsc(DEFINITIONS)
    assert result.ok, result.text
    [row] = qm.mqsc("DISPLAY QLOCAL(DEV.QUEUE.1) MAXDEPTH").rows
    assert row["MAXDEPTH"] == 5000
    [row] = qm.mqsc("DISPLAY QMGR DEADQ CONNAUTH AUTHCHK").rows
    assert (row["DEADQ"], row["CONNAUTH"]) == ("DEV.DEAD.LETTER.QUEUE", "DEV.AUTHINFO")
    assert row["AUTHCHK"] == "SEND"


def test_passwords_are_given_by_the_environment_or_generated_once_and_kept(tmp_path: Path) -> None:
    users = Users(tmp_path)
    first = developer_users(users, tmp_path, {"MAYFLY_APP_PASSWORD": "mine"})
    assert first.app == "mine"
    assert len(first.admin) >= 16
    assert first.file == tmp_path / PASSWORDS_FILE
    assert first.file.stat().st_mode & 0o777 == 0o600
    assert json.loads(first.file.read_text()) == {"admin": first.admin}
    again = developer_users(Users(tmp_path), tmp_path, {})
    assert again.admin == first.admin
    assert again.app != "mine"
    for name, password, groups in (
        ("app", again.app, ("developers",)),
        ("admin", again.admin, ("mqm",)),
    ):
        found = users.find(name)
        assert found is not None
        assert found.groups == groups
        assert is_right(password, found.password_hash)
    assert developer_users(users, tmp_path, GIVEN).file is None
    other = tmp_path / "other"
    other.mkdir()
    assert developer_users(Users(other), other, {}).admin != first.admin


def test_groups_that_a_developer_has_changed_stay(tmp_path: Path) -> None:
    users = Users(tmp_path)
    developer_users(users, tmp_path, GIVEN)
    users.change("app", groups=["developers", "more"])
    before = users.find("app")
    developer_users(users, tmp_path, GIVEN)
    assert users.find("app") == before


def test_a_damaged_file_of_passwords_is_named(tmp_path: Path) -> None:
    (tmp_path / PASSWORDS_FILE).write_text("[1]")
    with pytest.raises(StoreDamaged, match=PASSWORDS_FILE):
        developer_users(Users(tmp_path), tmp_path, {})


def test_clients_that_trust_the_certificate_reach_its_hosts(tmp_path: Path) -> None:
    hosts = ["localhost", "127.0.0.1", "::1"]
    certificate, key = self_signed_certificate(tmp_path, hosts, SystemClock().now_ms())
    assert key.stat().st_mode & 0o777 == 0o600
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    for host in hosts:
        near, far = socket.socketpair()
        with near, far:
            far.settimeout(60)
            thread = threading.Thread(
                target=lambda at=far: server.wrap_socket(at, server_side=True).close()
            )
            thread.start()
            trusting = ssl.create_default_context(cafile=certificate)
            with trusting.wrap_socket(near, server_hostname=host) as secure:
                assert secure.version() == "TLSv1.3"
            thread.join()


def test_the_certificate_stays_until_it_is_old_or_for_other_hosts(tmp_path: Path) -> None:
    now_ms = SystemClock().now_ms()

    def text(hosts: list[str], after_days: int = 0) -> str:
        return self_signed_certificate(tmp_path, hosts, now_ms + after_days * DAY_MS)[0].read_text()

    first = text(["localhost"])
    assert text(["localhost"]) == first
    assert text(["localhost"], 334) == first
    renewed = text(["localhost"], 336)
    assert renewed != first
    assert text(["localhost", "mq.example"]) != renewed
    (tmp_path / "developer-key.pem").write_text("no key")
    text(["localhost"])
    assert "PRIVATE KEY" in (tmp_path / "developer-key.pem").read_text()
