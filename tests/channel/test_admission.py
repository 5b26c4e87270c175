"""Which senders come in over a network, and as which user their messages are put."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.developer import self_signed_certificate
from mayfly.channel import ChannelState
from mayfly.mqi import reasons as rc
from mayfly.runtime import SystemClock
from mayfly.testing import VirtualClock
from tests.channel.network_scene import TOKEN, Served, lead_to, served
from tests.channel.scene import (
    CHANNEL,
    START_MS,
    XMITQ,
    bodies,
    done,
    put,
    receiving,
    sending,
    standing,
)
from tests.servers.certificates import certificate_of

DEAD = "SYSTEM.DEAD.LETTER.QUEUE"


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)


@pytest.fixture
def two() -> Iterator[QueueManager]:
    with receiving(VirtualClock(START_MS)) as manager:
        yield manager


@pytest.fixture
def one(clock: VirtualClock, server: Served) -> Iterator[QueueManager]:
    with sending(clock) as manager:
        lead_to(manager, server.port)
        yield manager


@pytest.fixture
def refusals(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, str]]]:
    """Return what the receiving end has logged: AMQ number and channel of each refusal."""
    return lambda: [
        (vars(record)["amq"], vars(record)["channel"])
        for record in caplog.records
        if record.name == "mayfly.security"
    ]


@pytest.mark.parametrize(
    ("command", "reason", "amq"),
    [
        ("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('127.0.0.*')", 2059, "AMQ9778E"),
        (f"DELETE CHANNEL({CHANNEL})", 2540, "AMQ9519E"),
        (f"STOP CHANNEL({CHANNEL})", 2537, "AMQ9558E"),
        (f"ALTER CHANNEL({CHANNEL}) SSLCIPH(ANY_TLS12_OR_HIGHER)", 2393, "AMQ9639E"),
        (f"SET CHLAUTH({CHANNEL}) TYPE(QMGRMAP) QMNAME('QM*') USERSRC(NOACCESS)", 2035, "AMQ9777E"),
        ("SET CHLAUTH('*') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS)", 2035, "AMQ9777E"),
    ],
)
def test_a_refused_sender_is_told_the_reason_alone_and_the_log_says_why(
    one: QueueManager,
    two: QueueManager,
    refusals: Callable[[], list[tuple[str, str]]],
    command: str,
    reason: int,
    amq: str,
) -> None:
    done(two, command)
    put(one, b"x")
    one.channels.start(CHANNEL)
    assert standing(one).status is ChannelState.RETRYING
    assert refusals() == [(amq, CHANNEL)]
    said = standing(one).failure
    assert f"refuses channel {CHANNEL}: its log says why" in said
    # Where the server is taken for absent, other addresses are tried, and no reason is named.
    assert reason == rc.MQRC_Q_MGR_NOT_AVAILABLE or f"({reason})" in said
    assert (two.curdepth("IN"), one.curdepth(XMITQ)) == (0, 1)


@pytest.mark.parametrize("token", ["guessed", ""])
def test_a_wrong_token_and_none_are_logged(
    one: QueueManager,
    refusals: Callable[[], list[tuple[str, str]]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    token: str,
) -> None:
    monkeypatch.setenv("MAYFLY_TOKEN", token)
    one.channels.start(CHANNEL)
    assert refusals() == [("AMQ9777E", CHANNEL)]
    said = "token of queue manager QM1 is wrong" if token else "QM1 shows no certificate and no"
    assert said in caplog.text
    assert TOKEN not in caplog.text
    assert "guessed" not in caplog.text


def test_the_default_rules_close_channels_of_the_system(
    clock: VirtualClock,
    two: QueueManager,
    server: Served,
    refusals: Callable[[], list[tuple[str, str]]],
) -> None:
    name = "SYSTEM.QM1.TO.QM2"
    done(two, f"DEFINE CHANNEL({name}) CHLTYPE(RCVR)")
    with sending(clock) as one:
        way = f"TRPTYPE(TCP) CONNAME('127.0.0.1({server.port})') XMITQ({XMITQ})"
        done(one, f"DEFINE CHANNEL({name}) CHLTYPE(SDR) {way}")
        assert not one.mqsc(f"PING CHANNEL({name})").ok
        assert refusals() == [("AMQ9777E", name)]
        done(two, f"SET CHLAUTH({name}) TYPE(QMGRMAP) QMNAME(QM1) USERSRC(CHANNEL)")
        done(one, f"PING CHANNEL({name})")


def test_the_user_of_a_map_needs_the_authority_to_put(one: QueueManager, two: QueueManager) -> None:
    """Of the map, where there is one, else MCAUSER; without both nothing is checked."""
    done(
        two,
        """
        SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('mover') AUTHADD(CONNECT,SETALL)
        SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('other') AUTHADD(CONNECT,SETALL)
        SET AUTHREC PROFILE(IN) OBJTYPE(QUEUE) PRINCIPAL('mover') AUTHADD(PUT,SETALL)
        """,
    )
    for number, (command, arrives) in enumerate(
        (
            (f"ALTER CHANNEL({CHANNEL}) CHLTYPE(RCVR) MCAUSER('')", True),
            (f"ALTER CHANNEL({CHANNEL}) CHLTYPE(RCVR) MCAUSER('other')", False),
            (f"SET CHLAUTH({CHANNEL}) TYPE(QMGRMAP) QMNAME(QM1) MCAUSER('mover')", True),
        )
    ):
        done(two, command)
        one.channels.stop(CHANNEL)
        one.channels.start(CHANNEL)
        before = len(bodies(two)), two.curdepth(DEAD)
        put(one, b"%d" % number)
        after = len(bodies(two)), two.curdepth(DEAD)
        assert after == (before[0] + arrives, before[1] + (not arrives)), command


def test_a_user_without_CONNECT_does_not_come_in(
    one: QueueManager, two: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    done(two, "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('other') AUTHADD(CONNECT)")
    done(two, f"ALTER CHANNEL({CHANNEL}) CHLTYPE(RCVR) MCAUSER('mover')")
    one.channels.start(CHANNEL)
    assert standing(one).status is ChannelState.RETRYING
    assert f"({rc.MQRC_NOT_AUTHORIZED})" in standing(one).failure
    assert f"AMQ9503E: channel {CHANNEL} of QM1 is refused" in caplog.text


@pytest.mark.parametrize(
    ("attributes", "shown", "amq"),
    [
        ("", {"CN": "qm1", "O": "Shop"}, None),
        ("SSLCAUTH(REQUIRED)", {}, "AMQ9637E"),
        ("SSLCAUTH(REQUIRED) SSLPEER('CN=qm1,O=Shop')", {"CN": "qm1", "O": "Shop"}, None),
        ("SSLCAUTH(REQUIRED) SSLPEER('CN=qm1,O=Shop')", {"CN": "qm1", "O": "Else"}, "AMQ9636E"),
        ("SSLCAUTH(OPTIONAL)", {}, "AMQ9777E"),
    ],
)
def test_a_certificate_is_shown_instead_of_a_token(
    clock: VirtualClock,
    two: QueueManager,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refusals: Callable[[], list[tuple[str, str]]],
    attributes: str,
    shown: dict[str, str],
    amq: str | None,
) -> None:
    own, key = self_signed_certificate(tmp_path, ["127.0.0.1"], SystemClock().now_ms())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    monkeypatch.delenv("MAYFLY_TOKEN")
    monkeypatch.setenv("MAYFLY_TLS_ROOTS", str(own))
    if shown:
        file = certificate_of(tmp_path / "sender.pem", **shown)
        context.load_verify_locations(file)
        monkeypatch.setenv("MAYFLY_TLS_CERTIFICATE", str(file))
    done(two, f"ALTER CHANNEL({CHANNEL}) CHLTYPE(RCVR) SSLCIPH(ANY_TLS12_OR_HIGHER) {attributes}")
    with served(two, tls_context=context) as server, sending(clock) as one:
        lead_to(one, server.port, more="SSLCIPH(ANY_TLS12_OR_HIGHER)")
        put(one, b"x")
        one.channels.start(CHANNEL)
        assert refusals() == ([] if amq is None else [(amq, CHANNEL)])
        assert bodies(two) == ([b"x"] if amq is None else [])


@pytest.mark.parametrize(("pattern", "is_reached"), [("CN=localhost", True), ("CN=qm9", False)])
def test_SSLPEER_of_a_sender_says_which_server_it_means(
    clock: VirtualClock,
    two: QueueManager,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    *,
    is_reached: bool,
) -> None:
    file = certificate_of(tmp_path / "server.pem", CN="localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    monkeypatch.setenv("MAYFLY_TLS_ROOTS", str(file))
    with served(two, tls_context=context) as server, sending(clock) as one:
        lead_to(one, server.port, more=f"SSLCIPH(ANY_TLS12_OR_HIGHER) SSLPEER('{pattern}')")
        put(one, b"x")
        one.channels.start(CHANNEL)
        assert bodies(two) == ([b"x"] if is_reached else [])
        name = f"({rc.MQRC_SSL_PEER_NAME_MISMATCH})"
        assert (name in standing(one).failure) is not is_reached


def test_the_key_of_a_certificate_may_stand_in_a_file_of_its_own(
    clock: VirtualClock, two: QueueManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, key = self_signed_certificate(tmp_path, ["127.0.0.1"], SystemClock().now_ms())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, key)
    context.load_verify_locations(own)
    context.verify_mode = ssl.CERT_REQUIRED
    for variable, file in (("ROOTS", own), ("CERTIFICATE", own), ("KEY", key)):
        monkeypatch.setenv(f"MAYFLY_TLS_{variable}", str(file))
    with served(two, tls_context=context) as server, sending(clock) as one:
        lead_to(one, server.port, more="SSLCIPH(ANY_TLS12_OR_HIGHER)")
        put(one, b"x")
        one.channels.start(CHANNEL)
        assert bodies(two) == [b"x"]
        one.channels.stop(CHANNEL)
        monkeypatch.setenv("MAYFLY_TLS_KEY", str(tmp_path / "gone"))
        one.channels.start(CHANNEL)
        assert f"({rc.MQRC_KEY_REPOSITORY_ERROR})" in standing(one).failure
        assert str(tmp_path / "gone") in standing(one).failure
