"""Admission in front of a real server: clients come in over a socket, guessers hold nobody up."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import mayfly
from mayfly.admin.security.admission import Admission
from mayfly.admin.security.developer import self_signed_certificate
from mayfly.admin.security.users import users_of
from mayfly.client.connection import Administration
from mayfly.client.connection.endpoint import Address, Endpoint, Tls
from mayfly.client.connection.remote import RemoteConnection, connect
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.runtime import SystemClock
from mayfly.servers.wire import WireServer
from tests.facts import wait_until
from tests.servers.certificates import certificate_of

HOST = "127.0.0.1"
SCRIPT = """
DEFINE QLOCAL(APP.Q)
DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) MAXINST(2)
SET AUTHREC OBJTYPE(QMGR) GROUP('staff') AUTHADD(CONNECT)
SET AUTHREC PROFILE('APP.**') OBJTYPE(QUEUE) GROUP('staff') AUTHADD(PUT,GET)
"""


@dataclass
class Scene:
    """A queue manager that is served over TCP."""

    qm: mayfly.QueueManager
    endpoint: Endpoint
    admission: Admission

    def connect(self, user: str, password: str, **more: object) -> RemoteConnection:
        return connect(self.endpoint._replace(**more), user, password, application="tests")  # type: ignore[arg-type]  # fields by name

    def refused(self, user: str, password: str, **more: object) -> int:
        with pytest.raises(MQError) as caught:
            self.connect(user, password, **more)
        return caught.value.reason


@pytest.fixture
def scene() -> Iterator[Scene]:
    with mayfly.QueueManager("QM1") as qm:
        assert qm.mqsc(SCRIPT).ok
        users_of(qm.engine).add("anna", "secret", ["staff"])
        admission = Admission([qm.engine], token="the-token")
        server = WireServer([qm], admission)
        try:
            port = server.listen_tcp(HOST, 0)
            yield Scene(qm, Endpoint((Address(HOST, port),), "APP", "QM1"), admission)
        finally:
            admission.close()
            server.close()


def test_a_user_comes_in_with_its_password_and_has_the_authority_of_its_groups(
    scene: Scene,
) -> None:
    connection = scene.connect("anna", "secret")
    connection.close()
    assert scene.qm.mqsc("ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS)").ok
    assert scene.refused("anna", "") == rc.MQRC_NOT_AUTHORIZED
    assert scene.refused("anna", "secret", channel="NONE") == rc.MQRC_UNKNOWN_CHANNEL_NAME
    assert scene.refused("anna", "secret", queue_manager="QM2") == rc.MQRC_Q_MGR_NAME_ERROR
    assert scene.qm.mqsc("STOP CHANNEL(APP)").ok
    assert scene.refused("anna", "secret") == rc.MQRC_CHANNEL_NOT_AVAILABLE


def test_the_operator_comes_in_without_a_channel(scene: Scene) -> None:
    connection = scene.connect("me", "the-token", channel="")
    assert Administration(connection.call).mqsc("DISPLAY QLOCAL(APP.Q)").ok
    connection.close()


@pytest.mark.slow
def test_guessers_of_passwords_hold_nobody_up(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    assert scene.qm.mqsc(
        "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) FAILDLAY(60)"
    ).ok
    reasons: list[int] = []

    def guess(number: int) -> None:
        try:
            scene.connect(f"user{number}", "guess").close()
        except MQError as error:
            reasons.append(error.reason)

    guessers = [threading.Thread(target=guess, args=(n,)) for n in range(12)]
    for guesser in guessers:
        guesser.start()
    for _ in range(3):
        scene.connect("anna", "secret").close()
    wait_until(lambda: caplog.text.count("AMQ5534E") == len(guessers))
    # All twelve wait still: nobody has been told a thing.
    assert reasons == []
    # What is kept back comes at once when the server ends.
    scene.admission.close()
    for guesser in guessers:
        guesser.join()
    assert reasons == [rc.MQRC_NOT_AUTHORIZED] * 12


@pytest.mark.parametrize(
    ("attributes", "is_let_in"),
    [
        ({"CN": "app", "O": "Shop"}, True),
        ({"CN": "eve", "O": "Other"}, False),
        # A comma in a value is no attribute more.
        ({"CN": "eve,O=Shop"}, False),
        ({"CN": 'eve",O="Shop', "O": "Other"}, False),
    ],
)
def test_the_name_in_a_certificate_gives_the_user_and_cannot_be_forged(
    tmp_path: Path, attributes: dict[str, str], *, is_let_in: bool
) -> None:
    own, key = self_signed_certificate(tmp_path, [HOST], SystemClock().now_ms())
    shown = certificate_of(tmp_path / "client.pem", **attributes)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, key)
    context.load_verify_locations(shown)
    context.verify_mode = ssl.CERT_REQUIRED
    with mayfly.QueueManager("QM1") as qm:
        assert qm.mqsc(SCRIPT).ok
        assert qm.mqsc(
            """
            ALTER CHANNEL(APP) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12_OR_HIGHER)
            ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) CHCKCLNT(OPTIONAL)
            SET CHLAUTH('*') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS)
            SET CHLAUTH(APP) TYPE(SSLPEERMAP) SSLPEER('O=Shop') MCAUSER('anna')
            """
        ).ok
        users_of(qm.engine).add("anna", "secret", ["staff"])
        admission = Admission([qm.engine])
        server = WireServer([qm], admission)
        try:
            address = Address(HOST, server.listen_tcp(HOST, 0, context))
            tls = Tls(authorities=own, certificate=shown)
            endpoint = Endpoint((address,), "APP", "QM1", tls)
            if is_let_in:
                connect(endpoint, "", "", application="tests").close()
            else:
                with pytest.raises(MQError) as caught:
                    connect(endpoint, "", "", application="tests")
                assert caught.value.reason == rc.MQRC_NOT_AUTHORIZED
        finally:
            admission.close()
            server.close()


def test_a_password_goes_over_TLS_with_the_certificate_that_signed_itself(tmp_path: Path) -> None:
    certificate, key = self_signed_certificate(tmp_path, [HOST], SystemClock().now_ms())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        assert qm.mqsc(SCRIPT).ok
        assert qm.mqsc(
            "ALTER CHANNEL(APP) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12_OR_HIGHER) SSLCAUTH(OPTIONAL)"
        ).ok
        users_of(qm.engine).add("anna", "secret", ["staff"])
        admission = Admission([qm.engine])
        server = WireServer([qm], admission)
        try:
            secure = server.listen_tcp(HOST, 0, context)
            plain = server.listen_tcp(HOST, 0)
            tls = Tls(authorities=certificate)
            endpoint = Endpoint((Address(HOST, secure),), "APP", "QM1", tls)
            connect(endpoint, "anna", "secret", application="tests").close()
            with pytest.raises(MQError) as caught:
                connect(
                    endpoint._replace(addresses=(Address(HOST, plain),), tls=None),
                    "anna",
                    "secret",
                    application="tests",
                )
            assert caught.value.reason == rc.MQRC_SSL_INITIALIZATION_ERROR
        finally:
            admission.close()
            server.close()
