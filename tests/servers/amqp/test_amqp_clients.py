"""Clients of AMQP as an operator sees them: DISPLAY CONN and CHSTATUS, STOP, MAXINST."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace

import pytest
from proton import Delivery, Endpoint, Message

from mayfly import QueueManager
from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.servers.addresses import ListenAddress
from mayfly.servers.listeners import AmqpListener
from mayfly.servers.settings import TlsFiles
from tests.facts import wait_until
from tests.servers.amqp.client import Client

CHANNEL = "DEV.APP.SVRCONN"
ONE = Admitted(user="app", is_operator=True)


class SameTerms:
    """Lets everybody in on the same terms."""

    def __init__(self, terms: Admitted) -> None:
        self.terms = terms

    def submit(self, applicant: Applicant) -> Future[Admitted]:
        answer: Future[Admitted] = Future()
        answer.set_result(self.terms)
        return answer


@contextmanager
def listening(qm: QueueManager, terms: Admitted) -> Iterator[int]:
    """Serve a queue manager as a host does; yield the port."""
    listener = AmqpListener(
        [qm], SameTerms(terms), ListenAddress("127.0.0.1", 0), channel=CHANNEL, tls=TlsFiles()
    )
    try:
        yield int(listener.start().rpartition(":")[2])
    finally:
        listener.stop()


@pytest.fixture
def port(qm: QueueManager) -> Iterator[int]:
    with listening(qm, ONE) as port:
        yield port


def shown(qm: QueueManager) -> list[tuple[object, ...]]:
    rows = qm.mqsc(f"DISPLAY CONN(*) ALL WHERE(CHANNEL EQ {CHANNEL})").rows
    return [tuple(row[name] for name in ("APPLTAG", "USERID", "CONNAME")) for row in rows]


def is_refused(one: Client) -> bool:
    return bool(one.connection.state & Endpoint.REMOTE_CLOSED)


def refusal(port: int, container: str) -> str:
    """Return why a client is refused."""
    one = Client(port, container=container)
    one.until(lambda: is_refused(one))
    condition = one.connection.remote_condition
    one.cut()
    assert condition is not None
    assert condition.name == "amqp:resource-limit-exceeded"
    return str(condition.description)


def test_DISPLAY_CONN_and_CHSTATUS_show_clients(qm: QueueManager, port: int) -> None:
    one = Client(port, container="a container with a very long name")
    sent = one.send(one.sender("Q1"), Message(body="x"))
    assert sent.remote_state == Delivery.ACCEPTED
    # One conversation gets, one puts.
    assert shown(qm) == [("a container with a very long", "app", "127.0.0.1")] * 2
    [status] = qm.mqsc(f"DISPLAY CHSTATUS({CHANNEL}) ALL").rows
    told = {
        "CONNAME": "127.0.0.1",
        "MCAUSER": "app",
        "RAPPLTAG": "a container with a very long",
        "CURSHCNV": 2,
        "MSGS": 1,
    }
    assert {name: status[name] for name in told} == told
    with qm.session() as session:
        message = session.get("Q1")
    assert message is not None
    assert message.descriptor.put_appl_name.strip() == "a container with a very long"
    one.close()
    wait_until(lambda: not shown(qm))


def test_STOP_CONN_ends_a_client_and_counts_what_it_held(qm: QueueManager, port: int) -> None:
    one, other = Client(port, container="one"), Client(port, container="other")
    other.send(other.sender("Q1"), Message(body="x"))
    one.receive(one.receiver("Q1", credit=1))
    [row] = qm.mqsc("DISPLAY CONN(*) WHERE(APPLTAG EQ 'one')").rows
    assert qm.mqsc(f"STOP CONN({row['CONN']})").ok
    one.until(lambda: is_refused(one))
    condition = one.connection.remote_condition
    assert condition is not None
    assert condition.name == "amqp:connection:forced"
    assert "was stopped by an operator" in str(condition.description)
    message, _delivery = other.receive(other.receiver("Q1", credit=1))
    assert (message.body, message.delivery_count) == ("x", 1)
    for each in (one, other):
        each.cut()


@pytest.mark.parametrize(
    "terms",
    [replace(ONE, max_instances=2), replace(ONE, max_instances_per_client=2)],
    ids=["MAXINST", "MAXINSTC"],
)
def test_one_instance_too_many_is_refused(qm: QueueManager, terms: Admitted) -> None:
    with listening(qm, terms) as port:
        first, second = (Client(port, container=name) for name in ("1", "2"))
        assert refusal(port, "3").startswith("MQRC_CHANNEL_NOT_AVAILABLE (2537)")
        first.close()
        wait_until(lambda: len(shown(qm)) == 1)
        third = Client(port, container="3")
        assert {row[0] for row in shown(qm)} == {"2", "3"}
        for each in (second, third):
            each.cut()


def test_a_session_that_ends_gives_back_what_its_links_held(qm: QueueManager, port: int) -> None:
    one = Client(port)
    one.send(one.sender("Q1"), Message(body="x"))
    session = one.connection.session()
    session.open()
    one.session, kept = session, one.session
    receiver = one.receiver("Q1", credit=1)
    one.receive(receiver)
    assert qm.counts("Q1").locked == 1
    session.close()
    one.until(lambda: session.state & Endpoint.REMOTE_CLOSED)
    one.session = kept
    message, _delivery = one.receive(one.receiver("Q1", credit=1))
    assert (message.body, message.delivery_count) == ("x", 0)
    one.cut()
