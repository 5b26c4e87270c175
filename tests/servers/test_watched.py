"""Threads of a server that no client, message or callback can end, and what probes say of one."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.admin.security.applicant import Admitted, Applicant
from mayfly.admin.security.users import users_of
from mayfly.client.connection import connect
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.runtime import Loop
from mayfly.servers.addresses import ListenAddress
from mayfly.servers.listeners import AmqpListener, Host, Listener
from mayfly.servers.status import ServerStatus, ServingState
from mayfly.servers.wire.link import Outbox
from mayfly.servers.wire.server import WireServer
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from tests.connection.serving import AdmitEverybody
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.servers.http.conftest import listening

CHANNEL = "DEV.APP.SVRCONN"


@pytest.fixture
def qm() -> Iterator[QueueManager]:
    with QueueManager("QM1", user="root") as manager:
        assert manager.mqsc(
            f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(SVRCONN)\nDEFINE QLOCAL(Q1) DEFPSIST(YES)\n"
            "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) FAILDLAY(1)"
        ).ok
        users_of(manager.engine).add("anna", "secret")
        yield manager


@pytest.fixture
def admission(qm: QueueManager) -> Iterator[Admission]:
    made = Admission([qm.engine])
    yield made
    made.close()


def with_password(user: str, password: str) -> Applicant:
    return Applicant(
        queue_manager="QM1", address="127.0.0.1", channel=CHANNEL, user=user, password=password
    )


def refused(answer: Future[Admitted]) -> int:
    with pytest.raises(MQError) as caught:
        answer.result(PATIENCE_SECONDS)
    return caught.value.reason


@pytest.mark.slow
def test_who_goes_before_the_refusal_takes_nobody_else_the_answer(
    qm: QueueManager, admission: Admission
) -> None:
    gone = admission.submit(with_password("bert", "wrong"))
    gone.cancel()
    assert refused(admission.submit(with_password("carl", "wrong"))) == rc.MQRC_NOT_AUTHORIZED
    # The thread is there for the next one as well.
    assert refused(admission.submit(with_password("dora", "wrong"))) == rc.MQRC_NOT_AUTHORIZED
    assert qm.engine.runtime.dead_loops() == []


def sasl_plain(user: str, password: str) -> bytes:
    """Return the header of SASL and an init of mechanism PLAIN (AMQP 1.0, 5.3.3.2)."""
    response = f"\0{user}\0{password}".encode()
    fields = b"\xa3\x05PLAIN" + b"\xa0" + bytes([len(response)]) + response
    body = b"\x00\x53\x41\xc0" + bytes([len(fields) + 1, 2]) + fields
    frame = (len(body) + 8).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body
    return b"AMQP\x03\x01\x00\x00" + frame


def answered(port: int, user: str) -> bytes:
    """Return all that a client with a wrong password is told."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as client:
        client.sendall(sasl_plain(user, "wrong"))
        told = b""
        while part := client.recv(4_096):
            told += part
        return told


@pytest.mark.slow
def test_AMQP_5_3_3_6_a_client_that_closes_before_its_sasl_outcome_is_not_missed(
    qm: QueueManager, admission: Admission
) -> None:
    pytest.importorskip("proton")
    from mayfly.servers.settings import TlsFiles

    listener = AmqpListener(
        [qm], admission, ListenAddress("127.0.0.1", 0), channel=CHANNEL, tls=TlsFiles()
    )
    port = int(listener.start().rpartition(":")[2])
    try:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(sasl_plain("bert", "wrong"))
            client.recv(8)
        for user in ("carl", "dora"):
            # sasl-outcome (0x44) with code 1, auth.
            outcome = answered(port, user).rpartition(b"\x00\x53\x44")
            assert outcome[1]
            assert outcome[2].endswith(b"\x50\x01")
    finally:
        listener.stop()


def test_health_ready_says_which_loop_is_gone(qm: QueueManager) -> None:
    def fail() -> bool:
        raise ValueError("x")

    for site in listening(qm, admission=AdmitEverybody()):
        answer = site.web.ask("GET", "/health/ready", user=None)
        assert (answer.status, answer.content["gone"]) == (200, [])
        loop = Loop(qm.engine.runtime, fail, "mayfly-refusals", survives_errors=False)
        loop.start()
        wait_until(qm.engine.runtime.dead_loops)
        answer = site.web.ask("GET", "/health/ready", user=None)
        assert (answer.status, answer.content["gone"]) == (503, ["mayfly-refusals"])
        assert answer.content["queue_managers"] == {"QM1": "impaired"}
        # A process that still works for all others is not killed for it.
        assert site.web.ask("GET", "/health/live", user=None).status == 200


def test_all_loops_of_a_server_are_known_while_they_work(
    qm: QueueManager, admission: Admission
) -> None:
    known = qm.engine.runtime._loops
    admission.submit(with_password("bert", "wrong"))
    wait_until(lambda: any(each.name == "mayfly-refusals" for each in known))
    with closing(WireServer([qm], admission)):
        for _site in listening(qm, admission=admission):
            names = {loop.name for loop in known}
            assert {"mayfly-due", "mayfly-http", "mayfly-wire"} <= names
    assert {"mayfly-http", "mayfly-wire"}.isdisjoint({loop.name for loop in known})


def test_an_event_loop_that_is_told_to_end_the_process_goes_on(qm: QueueManager) -> None:
    with closing(WireServer([qm], AdmitEverybody())) as server:
        server._server_loop.loop.call_soon_threadsafe(sys.exit)
        assert server.connections() == []
        assert qm.engine.runtime.dead_loops() == []


def test_a_callback_that_ends_the_process_lets_the_next_puts_be_told(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)").ok
        with closing(connect("QM1")) as connection:
            queue = connection.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle
            told = threading.Event()
            connection.begin(ask.Put.of(queue, b"1", Descriptor()), lambda _outcome: sys.exit(1))
            for _ in range(2):
                put = ask.Put.of(queue, b"2", Descriptor())
                connection.begin(put, lambda _outcome: told.set())
                assert told.wait(PATIENCE_SECONDS)
                told.clear()


class OfNobody:
    """Due work of claims, where one of them raises what nobody has expected."""

    def end_expired_leases(self) -> None:
        raise ValueError("a claim that nobody has expected")

    def next_lease_end_ms(self) -> int | None:
        return None


def test_one_kind_of_due_work_that_fails_keeps_no_other_and_ends_no_queue_manager() -> None:
    clock = VirtualClock()
    with QueueManager("QM1", clock=clock) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        due = manager.engine.due_work
        claims, due.claims = due.claims, OfNobody()  # type: ignore[assignment]  # it is no claims
        with manager.session() as session:
            session.put("Q1", b"x", delay_ms=1_000)
            with pytest.raises(ValueError, match="nobody has expected"):
                clock.advance(1_000)
            assert not manager.is_stopped
            message = session.get("Q1")
            assert message is not None
            assert message.body == b"x"
        due.claims = claims


def test_a_settlement_that_fails_takes_no_other_clients_with_it() -> None:
    pytest.importorskip("proton", reason="python-qpid-proton is built by a C compiler")
    from mayfly.servers.amqp.service import DeferredSettlements

    loop, made = asyncio.new_event_loop(), []
    deferred = DeferredSettlements(loop)
    calls: list[Callable[[], object]] = [lambda: 1 / 0, lambda: made.append("second")]
    for call in calls:
        deferred.add(call)
    deferred.make()
    loop.close()
    assert made == ["second"]


def test_frames_that_cannot_be_written_hold_no_other_connections_back() -> None:
    class Writer:
        def __init__(self, error: Exception | None = None) -> None:
            self._error, self.has_written = error, False

        def write_unsent(self) -> None:
            self.has_written = True
            if self._error is not None:
                raise self._error

    outbox, wrong, right = Outbox(), Writer(ValueError("x")), Writer()
    outbox.begin()
    for writer in (wrong, right):
        outbox.note(writer)
    outbox.end()
    assert wrong.has_written
    assert right.has_written


class Troubled(Listener):
    """A listener whose look, reload and stop fail."""

    name = "troubled"

    def start(self) -> str:
        return ""

    def reload(self) -> None:
        raise KeyError("reload")

    def look(self) -> None:
        raise KeyError("look")

    def stop(self) -> None:
        raise KeyError("stop")


class Calm(Troubled):
    """A listener that counts its calls."""

    name = "calm"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def reload(self) -> None:
        self.calls.append("reload")

    def look(self) -> None:
        self.calls.append("look")

    def stop(self) -> None:
        self.calls.append("stop")


def test_a_listener_that_fails_takes_neither_the_others_nor_the_server_with_it(
    qm: QueueManager, admission: Admission, caplog: pytest.LogCaptureFixture
) -> None:
    calm = Calm()
    server_status = ServerStatus([qm])
    host = Host([qm], [calm, Troubled(), Calm()], admission, server_status)
    host.start()
    assert server_status.state is ServingState.READY
    host.look()
    host.look()
    host.reload()
    host.stop()
    assert calm.calls == ["look", "look", "reload", "stop"]
    said = [record.getMessage() for record in caplog.records if "looked at" in record.getMessage()]
    assert len(said) == 1, "the same error is logged once"


def test_the_first_loop_that_is_gone_is_logged_once(
    qm: QueueManager, admission: Admission, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> bool:
        raise ValueError("x")

    host = Host([qm], [], admission)
    Loop(qm.engine.runtime, fail, "mayfly-test", survives_errors=False).start()
    wait_until(qm.engine.runtime.dead_loops)
    host.look()
    host.look()
    critical = [r.getMessage() for r in caplog.records if r.levelname == "CRITICAL"]
    assert len(critical) == 1
    assert critical[0].startswith("mayfly-test is gone")
