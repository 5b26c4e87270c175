"""Client mode: a program for a remote queue manager, its channel, its keys, and what goes wrong."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.servers.wire import WireServer
from tests.connection.serving import HOST, AdmitEverybody
from tests.ports import held_port
from tests.pymqi.conftest import Fails
from tests.servers.certificates import certificate

#: Each test says itself over which socket it goes.
pytestmark = pytest.mark.in_process


class Served:
    """``QM1`` on a port, plain and with TLS."""

    def __init__(self, manager: QueueManager, identity: tuple[Path, Path]) -> None:
        self.admission = AdmitEverybody()
        self._server = WireServer([manager], self.admission)
        self.port = self._server.listen_tcp(HOST, 0)
        self.certificate, key = identity
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.tls_port = self._server.listen_tcp(HOST, 0, context)
        self.where = f"{HOST}({self.port})"
        self.close = self._server.close


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate and its key; to make them costs more than any of the tests."""
    return certificate(tmp_path_factory.mktemp("identity"))


@pytest.fixture
def served(queue_manager: QueueManager, identity: tuple[Path, Path]) -> Iterator[Served]:
    assert queue_manager.mqsc(
        "DEFINE QLOCAL(Q1)\n"
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT)\n"
        "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT, GET)"
    ).ok
    it = Served(queue_manager, identity)
    yield it
    it.close()


def test_connect_by_channel_and_connection_name(served: Served, fails: Fails) -> None:
    connection = pymqi.connect("QM1", "DEV.APP.SVRCONN", served.where, "ann", "secret")
    md = pymqi.MD()
    connection.put1("Q1", b"x", md)
    assert md.UserIdentifier == b"ann".ljust(12)
    assert pymqi.Queue(connection, "Q1").get() == b"x"
    assert fails(connection.put1, "NONE", b"x").reason == CMQC.MQRC_UNKNOWN_OBJECT_NAME
    assert connection.get_name() == "QM1"
    connection.disconnect()
    applicant = served.admission.applicants[-1]
    assert (applicant.channel, applicant.user, applicant.password) == (
        "DEV.APP.SVRCONN",
        "ann",
        "secret",
    )
    assert applicant.queue_manager == "QM1"


def test_connect_tcp_client_fills_in_the_cd(served: Served) -> None:
    cd, connection = pymqi.CD(), pymqi.QueueManager(None)
    connection.connect_tcp_client("QM1", cd, "C", served.where, b"ann", b"p\xc3\xa4ss")
    assert (cd.ChannelName, cd.ConnectionName) == (b"C", served.where.encode())
    assert served.admission.applicants[-1].password == "päss"
    assert connection.is_connected


def test_the_fields_of_a_cd_are_honoured(served: Served, fails: Fails) -> None:
    cd = pymqi.CD(
        ChannelName="C", ConnectionName=served.where, MaxMsgLength=1_000, HeartbeatInterval=30
    )
    cd.UserIdentifier, cd.Password = b"ann", b"secret"
    connection = pymqi.QueueManager(None)
    connection.connect_with_options("QM1", cd)
    assert served.admission.applicants[-1].password == "secret"
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT)
    queue.put(b"x" * 1_000)
    assert fails(queue.put, b"x" * 1_001).reason == CMQC.MQRC_MSG_TOO_BIG_FOR_CHANNEL


def test_names_are_tried_in_order(served: Served) -> None:
    with held_port() as port:
        connection = pymqi.connect("QM1", "C", f"{HOST}({port}),{served.where}", "ann", "")
    assert connection.is_connected


def test_an_asterisk_or_a_blank_name_takes_the_queue_manager_that_is_there(served: Served) -> None:
    for name in ("", "*", "*GROUP"):
        assert pymqi.connect(name, "C", served.where, "ann", "").get_name() == "QM1"


def test_why_there_is_no_connection(served: Served, fails: Fails) -> None:
    with held_port() as port:
        nobody = f"{HOST}({port})"
        cases: list[tuple[tuple[str, ...], int]] = [
            (("QM1", "C", nobody), CMQC.MQRC_HOST_NOT_AVAILABLE),
            # Of several places the error of the one that came furthest.
            (("QM1", "NONE", f"{nobody},{served.where},{nobody}"), CMQC.MQRC_UNKNOWN_CHANNEL_NAME),
            (("QM9", "C", f"{served.where},{nobody}"), CMQC.MQRC_Q_MGR_NAME_ERROR),
            (("QM9", "C", served.where), CMQC.MQRC_Q_MGR_NAME_ERROR),
            (("QM1", "NONE", served.where), CMQC.MQRC_UNKNOWN_CHANNEL_NAME),
            (("QM1", "C", served.where, "ann", "wrong"), CMQC.MQRC_NOT_AUTHORIZED),
            (("QM1", "C", "no.such.host.invalid(1)"), CMQC.MQRC_HOST_NOT_AVAILABLE),
            (("QM1", "C", "host(port)"), CMQC.MQRC_HOST_NOT_AVAILABLE),
        ]
        for arguments, reason in cases:
            error = fails(pymqi.connect, *arguments)
            assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, reason), arguments


def test_of_a_table_the_error_of_the_entry_that_came_furthest_is_raised(
    served: Served, fails: Fails, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held_port() as port:
        table = {
            "channel": [
                {
                    "name": name,
                    "type": "clientConnection",
                    "clientConnection": {
                        "connection": [{"host": HOST, "port": place}],
                        "queueManager": "QM1",
                    },
                }
                for name, place in (("A", port), ("NONE", served.port), ("Z", port))
            ]
        }
        file = tmp_path / "ccdt.json"
        file.write_text(json.dumps(table))
        monkeypatch.setenv("MQCCDTURL", str(file))
        assert fails(pymqi.connect, "QM1").reason == CMQC.MQRC_UNKNOWN_CHANNEL_NAME


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"ChannelName": b""}, CMQC.MQRC_CD_ERROR),
        ({"ChannelType": 1}, CMQC.MQRC_CD_ERROR),
        ({"TransportType": 1}, CMQC.MQRC_CD_ERROR),
        ({"DefReconnect": 9}, CMQC.MQRC_CD_ERROR),
        ({"SecurityExit": b"bouncer(x)"}, CMQC.MQRC_CLIENT_EXIT_LOAD_ERROR),
    ],
    ids=str,
)
def test_wrong_channel_definitions(fails: Fails, fields: dict[str, object], reason: int) -> None:
    cd = pymqi.CD(**{"ChannelName": b"C", "ConnectionName": b"localhost(1)", **fields})
    connection = pymqi.QueueManager(None)
    error = fails(connection.connect_with_options, "QM1", cd)
    assert error.reason == reason
    assert not connection.is_connected


@pytest.mark.parametrize(
    "options",
    [
        CMQC.MQCNO_RECONNECT | CMQC.MQCNO_RECONNECT_DISABLED,
        CMQC.MQCNO_LOCAL_BINDING | CMQC.MQCNO_CLIENT_BINDING,
        CMQC.MQCNO_HANDLE_SHARE_BLOCK | CMQC.MQCNO_HANDLE_SHARE_NONE,
        1 << 30,
    ],
)
def test_wrong_options_are_2046(fails: Fails, options: int) -> None:
    connect = pymqi.QueueManager(None).connect_with_options
    assert fails(lambda: connect("QM1", opts=options)).reason == CMQC.MQRC_OPTIONS_ERROR


def test_the_binding_options(served: Served, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = pymqi.QueueManager(None).connect_with_options
    error = fails(lambda: connect("QM1", opts=CMQC.MQCNO_CLIENT_BINDING))
    assert error.reason == CMQC.MQRC_Q_MGR_NAME_ERROR
    monkeypatch.setenv("MQSERVER", f"C/TCP/{served.where}")
    before = len(served.admission.applicants)
    connect("QM1", opts=CMQC.MQCNO_LOCAL_BINDING)
    assert len(served.admission.applicants) == before
    connect("QM1", opts=CMQC.MQCNO_CLIENT_BINDING, user="ann")
    assert len(served.admission.applicants) == before + 1


def table(folder: Path, port: int, **security: str) -> str:
    path = folder / "ccdt.json"
    row = {
        "name": "TLS.SVRCONN",
        "type": "clientConnection",
        "clientConnection": {
            "connection": [{"host": HOST, "port": port}],
            "queueManager": "QM1",
        },
        "transmissionSecurity": security,
    }
    path.write_text(json.dumps({"channel": [row]}))
    return path.as_uri()


def test_tls_by_a_channel_table(
    served: Served, fails: Fails, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = table(tmp_path, served.tls_port, cipherSpecification="ANY_TLS12_OR_HIGHER")
    monkeypatch.setenv("MQCCDTURL", url)
    # Nobody has signed the certificate: the machine does not trust it.
    error = fails(pymqi.connect, "QM1", None, None, "ann")
    assert error.reason == CMQC.MQRC_SSL_INITIALIZATION_ERROR
    monkeypatch.setenv("MQSSLKEYR", str(served.certificate))
    connection = pymqi.connect("QM1", user="ann", password="secret")
    assert served.admission.applicants[-1].has_tls
    assert served.admission.applicants[-1].channel == "TLS.SVRCONN"
    connection.disconnect()


def test_tls_by_cd_and_sco(served: Served, fails: Fails) -> None:
    cd = pymqi.CD(
        ChannelName="C",
        ConnectionName=f"{HOST}({served.tls_port})",
        SSLCipherSpec="ANY_TLS12_OR_HIGHER",
    )
    connection = pymqi.QueueManager(None)
    sco = pymqi.SCO(KeyRepository=str(served.certificate.with_suffix("")))
    connection.connect_with_options("QM1", cd, sco, user="ann")
    assert served.admission.applicants[-1].has_tls
    for wrong in ("/none/key", str(served.certificate.with_suffix(".kdb"))):
        sco = pymqi.SCO(KeyRepository=wrong)
        error = fails(lambda sco=sco: connection.connect_with_options("QM1", cd, sco, user="ann"))
        assert error.reason == CMQC.MQRC_KEY_REPOSITORY_ERROR
    sco = pymqi.SCO(FipsRequired=CMQC.MQSSL_FIPS_YES)
    error = fails(lambda: connection.connect_with_options("QM1", cd, sco, user="ann"))
    assert error.reason == CMQC.MQRC_SSL_INITIALIZATION_ERROR


def test_a_server_that_goes_is_2009(served: Served, fails: Fails) -> None:
    connection = pymqi.connect("QM1", "C", served.where, "ann", "")
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT)
    queue.put(b"x")
    served.close()
    assert fails(queue.put, b"y").reason == CMQC.MQRC_CONNECTION_BROKEN
    assert not connection.is_connected
    connection.disconnect()


def test_somebody_else_who_listens_is_2059(fails: Fails) -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        listener.settimeout(60)
        error: list[pymqi.MQMIError] = []
        thread = threading.Thread(
            target=lambda: error.append(fails(pymqi.connect, "QM1", "C", f"{HOST}({port})"))
        )
        thread.start()
        other, _ = listener.accept()
        other.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        thread.join(60)
        other.close()
    assert error[0].reason == CMQC.MQRC_Q_MGR_NOT_AVAILABLE
    assert "HTTP" in error[0].__notes__[0]


@pytest.mark.parametrize(
    ("options", "default", "reason"),
    [
        (CMQC.MQCNO_RECONNECT, 0, 0),
        (CMQC.MQCNO_RECONNECT_Q_MGR, 0, 0),
        (CMQC.MQCNO_NONE, 1, 0),
        (CMQC.MQCNO_RECONNECT_DISABLED, 1, CMQC.MQRC_CONNECTION_BROKEN),
        (CMQC.MQCNO_NONE, 0, CMQC.MQRC_CONNECTION_BROKEN),
    ],
)
def test_a_program_reconnects_when_it_asks_for_that(
    queue_manager: QueueManager,
    fails: Fails,
    served: Served,
    options: int,
    default: int,
    reason: int,
) -> None:
    server = WireServer([queue_manager], AdmitEverybody())
    port = server.listen_tcp(HOST, 0)
    cd = pymqi.CD(ChannelName="C", ConnectionName=f"{HOST}({port})", DefReconnect=default)
    connection = pymqi.QueueManager(None)
    connection.connect_with_options("QM1", cd, opts=options, user="operator")
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT | CMQC.MQOO_INPUT_SHARED)
    queue.put(b"one", pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    server.close()
    server = WireServer([queue_manager], AdmitEverybody())
    server.listen_tcp(HOST, port)
    try:
        if reason:
            assert fails(queue.put, b"two").reason == reason
            assert not connection.is_connected
            return
        queue.put(b"two")
        assert fails(connection.commit).reason == CMQC.MQRC_BACKED_OUT
        assert queue.get() == b"two"
        assert fails(queue.get).reason == CMQC.MQRC_NO_MSG_AVAILABLE
        connection.disconnect()
    finally:
        server.close()


def test_csp_and_cno_are_user_program_and_options(
    queue_manager: QueueManager, served: Served, fails: Fails
) -> None:
    cd = pymqi.CD(ChannelName="APP.SVRCONN", ConnectionName=served.where)
    csp = pymqi.CSP(
        AuthenticationType=CMQC.MQCSP_AUTH_USER_ID_AND_PWD, CSPUserId="ann", CSPPassword="secret"
    )
    cno = pymqi.CNO(Options=CMQC.MQCNO_CLIENT_BINDING, ApplName="till")
    connection = pymqi.QueueManager(None)
    connection.connect_with_options("QM1", cd=cd, csp=csp, cno=cno, bno=pymqi.BNO())
    applicant = served.admission.applicants[-1]
    assert (applicant.user, applicant.password) == ("ann", "secret")
    assert len(queue_manager.mqsc("DISPLAY CONN(*) WHERE(APPLTAG EQ 'till')").rows) == 1
    assert isinstance(connection.get_handle(), int)
    connection.disconnect()
    csp.AuthenticationType = CMQC.MQCSP_AUTH_ID_TOKEN
    error = fails(lambda: connection.connect_with_options("QM1", cd=cd, csp=csp))
    assert error.reason == CMQC.MQRC_CSP_ERROR
    cno.Options = CMQC.MQCNO_LOCAL_BINDING | CMQC.MQCNO_CLIENT_BINDING
    error = fails(lambda: connection.connect_with_options("QM1", cd=cd, cno=cno))
    assert error.reason == CMQC.MQRC_OPTIONS_ERROR


def test_a_cno_names_a_channel_table(served: Served, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    where = {"host": HOST, "port": served.port}
    channel = {
        "name": "APP.SVRCONN",
        "type": "clientConnection",
        "clientConnection": {"connection": [where], "queueManager": "QM1"},
    }
    table.write_text(json.dumps({"channel": [channel]}))
    connection = pymqi.QueueManager(None)
    connection.connect_with_options("QM1", user="ann", cno=pymqi.CNO(CCDTUrl=table.as_uri()))
    assert connection.is_connected
    connection.disconnect()
