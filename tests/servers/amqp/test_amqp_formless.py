"""Messages that have no form in AMQP: consumers go on with the next, readers see the bytes and why.

A program that puts by another door may write what only the server of AMQP should: properties of the
folder ``amqp``, and bodies of format ``AMQP``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from proton import Data, Delivery, Link, Message, symbol

from mayfly import QueueManager
from mayfly.client.connection import connect
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import CannotBeGiven
from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import Scalar, Section, text
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.servers.amqp.outgoing import outgoing
from mayfly.services.dead_letter import dead_letter_of
from mayfly.verbs import requests as ask
from mayfly.verbs.properties.folders import properties_of_mapping
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import OneUser
from tests.servers.amqp.test_amqp_types import CHAR, of_value, put, sections

New = Callable[..., Client]
#: Properties that the server cannot have written.
PROPERTIES: dict[str, dict[str, object]] = {
    "type that is none": {"amqp.Annotations": '{"a":[9999,1]}'},
    "no pair": {"amqp.Annotations": '{"a":1}'},
    "no map": {"amqp.Properties": "[1]"},
    "no JSON": {"amqp.Properties": "red"},
    "a number": {"amqp.Properties": 5},
    "3,000 deep": {"amqp.Annotations": '{"a":' * 3_000},
    "value of another type": {"amqp.Annotations": '{"a":[21,5]}'},
    "number too large": {"amqp.Properties": '{"a":[2,256]}'},
    "name that is no symbol": {"amqp.Annotations": '{"\u00fc":[21,"x"]}'},
    "bytes that are no value": {"amqp.Annotations": '{"a":[0,"ff"]}'},
    "content type": {"amqp.ContentType": "t\u00fc/x"},
    "content encoding": {"amqp.ContentEncoding": "\u00fc"},
}
#: Data that are no body of AMQP.
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "no section": b"\xff",
    "text": b"hello",
    "a header": codec.encoded([Section(codec.HEADER, [])]),
    "two kinds": codec.encoded([Section(codec.SEQUENCE, []), Section(codec.VALUE, None)]),
    "text of no UTF-8": b"\x00\x53\x77\xa1\x01\xff",
}
FORMLESS: dict[str, tuple[dict[str, object], str, bytes]] = {
    **{name: (given, "MQSTR", b"x") for name, given in PROPERTIES.items()},
    **{f"body: {name}": ({}, "AMQP", data) for name, data in BODIES.items()},
}
GETS = (
    "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT)",
    "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET,INQ)",
    "SET AUTHREC PROFILE(RETRIED) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET,INQ)",
)
every_formless = pytest.mark.parametrize(
    ("properties", "data_format", "data"), FORMLESS.values(), ids=FORMLESS
)


def put_by_program(
    name: str, data: bytes, properties: dict[str, object], data_format: str = "MQSTR"
) -> None:
    """Put to a queue, or publish to a topic string, which has a slash."""
    given = properties_of_mapping(properties)
    descriptor = Descriptor(format=data_format, coded_char_set_id=1208)
    with closing(connect("QM1")) as connection:
        if "/" in name:
            opened = connection.call(ask.Open("", c.MQOO_OUTPUT, kind=c.MQOT_TOPIC, topic=name))
        else:
            opened = connection.call(ask.Open(name, c.MQOO_OUTPUT))
        connection.put(opened.handle, data, descriptor, properties=given)


@pytest.fixture
def authorized(qm: QueueManager) -> Iterator[Client]:
    """A client of a user who may get from two queues, and nothing else."""
    for definition in GETS:
        assert qm.mqsc(definition).ok
    server = AmqpServer(
        ["QM1"], OneUser(), lambda name, *_who: connect(name, user="app", program="AMQP")
    )
    with closing(server):
        one = Client(server.listen_tcp("127.0.0.1", 0))
        yield one
        one.cut()


def put_formless(queue: str = "Q1") -> None:
    put_by_program(queue, b"bad", PROPERTIES["type that is none"])


def bodies_of(one: Client, receiver: Link, count: int) -> Iterator[bytes]:
    for _ in range(count):
        message, delivery = one.receive(receiver)
        yield bytes(message.body)
        one.settle(delivery, Delivery.ACCEPTED)


@every_formless
def test_a_consumer_has_the_next_message_and_the_formless_one_is_dead_lettered(
    qm: QueueManager,
    client: New,
    properties: dict[str, object],
    data_format: str,
    data: bytes,
) -> None:
    put_by_program("Q1", data, properties, data_format)
    with qm.session() as session:
        [sent] = session.browse("Q1")
        session.put("Q1", b"good", time_to_live_ms=60_000)
    one = client()
    assert list(bodies_of(one, one.receiver("Q1", credit=1), 1)) == [b"good"]
    assert one.drained(one.receiver("Q1"), 1) == 0
    one.close()
    with qm.session() as session:
        [dead] = session.browse("DEAD")
    letter = dead_letter_of(dead)
    assert letter is not None
    assert (letter.reason, letter.target) == (rc.MQRC_FORMAT_ERROR, "Q1")
    assert (letter.data, dead.msg_id) == (sent.body, sent.msg_id)
    assert qm.curdepth("Q1") == 0
    assert qm.verify().ok


@every_formless
def test_a_reader_sees_the_bytes_and_the_reason_and_changes_nothing(
    qm: QueueManager,
    client: New,
    properties: dict[str, object],
    data_format: str,
    data: bytes,
) -> None:
    put_by_program("Q1", data, properties, data_format)
    with qm.session() as session:
        session.put("Q1", b"good")
        sent = next(iter(session.browse("Q1")))
    one = client()
    receiver = one.receiver("Q1", copies=True, credit=2)
    message, _delivery = one.receive(receiver)
    assert bytes(message.body) == sent.body
    assert message.id == f"ID:{sent.msg_id.hex()}"
    assert message.annotations[symbol("x-opt-mayfly-reason")] == "MQRC_FORMAT_ERROR"
    assert message.annotations[symbol("x-opt-mayfly-detail")]
    assert bytes(one.receive(receiver)[0].body) == b"good"
    with qm.session() as session:
        assert [m.backout_count for m in session.browse("Q1")] == [0, 0]
    assert qm.curdepth("DEAD") == 0


def test_a_formless_message_goes_to_the_backout_queue_as_it_is(
    qm: QueueManager, client: New
) -> None:
    put_formless("RETRIED")
    with qm.session() as session:
        [sent] = session.browse("RETRIED")
        session.put("RETRIED", b"good")
    one = client()
    assert list(bodies_of(one, one.receiver("RETRIED", credit=1), 1)) == [b"good"]
    one.close()
    with qm.session() as session:
        [moved] = session.browse("BACK")
    assert (moved.body, moved.msg_id) == (sent.body, sent.msg_id)
    assert qm.curdepth("DEAD") == 0


def test_a_formless_message_that_no_queue_takes_stays_and_those_behind_it_come(
    qm: QueueManager, client: New
) -> None:
    assert qm.mqsc("ALTER QMGR DEADQ(' ')").ok
    put_formless()
    with qm.session() as session:
        for body in (b"first", b"second"):
            session.put("Q1", body)
    one = client()
    assert list(bodies_of(one, one.receiver("Q1", credit=2), 2)) == [b"first", b"second"]
    one.close()
    assert qm.curdepth("Q1") == 1


def test_a_formless_dead_letter_stays_on_the_dead_letter_queue_as_it_is(
    qm: QueueManager, client: New
) -> None:
    put_formless("DEAD")
    with qm.session() as session:
        [before] = session.browse("DEAD")
        session.put("DEAD", b"good")
    one = client()
    assert list(bodies_of(one, one.receiver("DEAD", credit=2), 1)) == [b"good"]
    one.close()
    with qm.session() as session:
        [after] = session.browse("DEAD")
    assert after.body == before.body


def test_a_subscriber_has_the_next_publication_behind_a_formless_one(
    qm: QueueManager, client: New
) -> None:
    one = client()
    receiver = one.receiver("topic://prices/tin", credit=1)
    put_by_program("prices/tin", b"bad", PROPERTIES["no JSON"])
    put_by_program("prices/tin", b"good", {})
    assert one.receive(receiver)[0].body == "good"
    one.close()
    assert qm.curdepth("DEAD") == 1


def test_a_link_whose_messages_are_sent_settled_goes_on_behind_a_formless_one(
    qm: QueueManager, client: New
) -> None:
    put_formless()
    with qm.session() as session:
        session.put("Q1", b"good")
    one = client()
    message, _delivery = one.receive(one.receiver("Q1", credit=2, is_settled=True))
    assert bytes(message.body) == b"good"
    one.close()
    assert qm.curdepth("DEAD") == 1


@pytest.mark.parametrize(("queue", "other"), [("Q1", "DEAD"), ("RETRIED", "BACK")])
def test_C7_a_formless_message_is_moved_by_the_authority_of_the_queue_manager(
    qm: QueueManager, authorized: Client, queue: str, other: str
) -> None:
    put_formless(queue)
    with qm.session() as session:
        session.put(queue, b"good")
    receiver = authorized.receiver(queue, credit=1)
    assert list(bodies_of(authorized, receiver, 1)) == [b"good"]
    authorized.close()
    assert qm.curdepth(other) == 1


def test_whatever_fails_on_the_way_out_is_one_exception_with_a_reason(qm: QueueManager) -> None:
    put_formless()
    with qm.session() as session:
        [message] = session.browse("Q1")
    with pytest.raises(CannotBeGiven, match="9999") as raised:
        outgoing(message, destination="Q1", manager="QM1")
    assert raised.value.reason == rc.MQRC_FORMAT_ERROR


@pytest.mark.parametrize("name", ["amqp.Annotations", "amqp.ContentType", "amqp.mine"])
def test_3_2_5_accepted_an_application_property_named_as_one_of_the_server_is_the_clients_own(
    client: New, name: str
) -> None:
    one = client()
    given: Any = {text(name): text('{"a":[9999,1]}')}
    outcome = put(one, of_value(CHAR, Section(codec.APPLICATION_PROPERTIES, given)))
    assert outcome.remote_state == Delivery.ACCEPTED
    assert sections(one)[codec.APPLICATION_PROPERTIES] == given


def test_annotations_that_a_consumer_adds_come_back_whatever_their_type(client: New) -> None:
    one = client()
    one.send(one.sender("Q1"), Message(body="x"))
    receiver = one.receiver("Q1", credit=1)
    _message, delivery = one.receive(receiver)
    added = {symbol("x-opt-mine"): Scalar(Data.CHAR, "x").value}
    one.settle(delivery, Delivery.MODIFIED, annotations=added)
    receiver.flow(1)
    message, _delivery = one.receive(receiver)
    assert message.annotations[symbol("x-opt-mine")] == "x"
