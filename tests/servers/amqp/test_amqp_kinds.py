"""x-opt-jms-msg-type on the way out: it is that of the body, or there is none."""

from __future__ import annotations

import pytest
from proton import Data

from mayfly import QueueManager, jms
from mayfly.engine import PutRequest
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import Scalar, Section, Value, symbol, text
from tests.servers.amqp.test_amqp_types import NUMBERS, New, annotated, of_value, put, sections

KIND = symbol("x-opt-jms-msg-type")
BINARY = Scalar(Data.BINARY, b"\1")
#: Bodies by what an AMQP client sends: the sections, and the numbers that fit.
BODIES: dict[str, tuple[list[Section], set[int | None]]] = {
    "value-string": ([Section(codec.VALUE, text("x"))], {5}),
    "value-null": ([Section(codec.VALUE, None)], {None, 0}),
    "value-boolean": ([Section(codec.VALUE, Scalar(Data.BOOL, True))], {None, 1}),
    "value-long": ([Section(codec.VALUE, Scalar(Data.LONG, 7))], {None, 1}),
    "value-list": ([Section(codec.VALUE, NUMBERS)], {None, 1, 4}),
    "value-map": ([Section(codec.VALUE, {text("a"): BINARY})], {None, 1, 2}),
    "value-binary": ([Section(codec.VALUE, BINARY)], {None, 1, 3}),
    "sequence": ([Section(codec.SEQUENCE, NUMBERS)], {None, 1, 4}),
    "sequences": ([Section(codec.SEQUENCE, NUMBERS)] * 2, {None, 1, 4}),
    "data": ([Section(codec.DATA, BINARY)], {3}),
    "datas": ([Section(codec.DATA, BINARY)] * 2, {3}),
}


def kind_of(found: dict[int, Value]) -> int | None:
    annotations = found[codec.MESSAGE_ANNOTATIONS]
    assert isinstance(annotations, dict)
    kind = annotations.get(KIND)
    assert kind is None or isinstance(kind, Scalar)
    return None if kind is None else int(kind.value)


@pytest.mark.parametrize(("body", "kinds"), BODIES.values(), ids=BODIES)
def test_3_2_accepted_without_an_annotation_a_message_leaves_with_one_that_fits_or_none(
    client: New, body: list[Section], kinds: set[int | None]
) -> None:
    one = client()
    put(one, codec.encoded(body))
    found = sections(one)
    assert kind_of(found) in kinds
    assert body[-1].code in found


SENT: dict[str, tuple[int, Value]] = {
    "message": (0, None),
    "object": (1, Scalar(Data.LONG, 7)),
    "map": (2, {text("a"): BINARY}),
    "stream": (4, [text("x")]),
    "text": (5, text("x")),
    "null-text": (5, None),
}


@pytest.mark.parametrize(("kind", "value"), SENT.values(), ids=SENT)
def test_3_2_accepted_with_the_annotation_of_its_body_a_message_keeps_it(
    client: New, kind: int, value: Value
) -> None:
    one = client()
    put(one, annotated(kind, value))
    found = sections(one)
    assert (kind_of(found), found[codec.VALUE]) == (kind, value)


@pytest.mark.parametrize("value", [Scalar(Data.BOOL, True), [text("x")]], ids=["boolean", "list"])
@pytest.mark.parametrize("kind", [0, 3, 5])
def test_3_2_accepted_with_the_annotation_of_another_body_a_message_loses_it(
    client: New, kind: int, value: Value
) -> None:
    one = client()
    put(one, annotated(kind, value))
    found = sections(one)
    assert (kind_of(found), found[codec.VALUE]) == (None, value)


@pytest.mark.parametrize(
    ("data_format", "ccsid", "data", "kind"),
    [("MQSTR", 1208, b"x", 5), ("", 1208, b"x", 3), ("MQSTR", 1208, b"\xff", 3)],
)
def test_a_message_of_the_MQI_leaves_as_text_where_it_is_text(
    qm: QueueManager, client: New, data_format: str, ccsid: int, data: bytes, kind: int
) -> None:
    with qm.session() as session:
        queue = session.open("Q1", c.MQOO_OUTPUT)
        queue.put(data, PutRequest(Descriptor(format=data_format, coded_char_set_id=ccsid)))
    assert kind_of(sections(client())) == kind


@pytest.mark.parametrize("kind", ["message", "text", "bytes", "map", "stream"])
def test_each_kind_of_message_of_JMS_leaves_as_itself(
    qm: QueueManager, client: New, kind: str
) -> None:
    with jms.ConnectionFactory(qm).create_connection() as connection:
        session = connection.create_session()
        name = "create_message" if kind == "message" else f"create_{kind}_message"
        message: jms.Message = getattr(session, name)()
        session.create_producer(session.create_queue("Q1")).send(message)
    numbers = {"message": 0, "text": 5, "bytes": 3, "map": 2, "stream": 4}
    assert kind_of(sections(client())) == numbers[kind]


def test_a_map_of_JMS_that_is_damaged_leaves_as_bytes(qm: QueueManager, client: New) -> None:
    with qm.session() as session:
        session.put("Q1", b"<map>", properties={"mcd.Msd": "jms_map"})
    assert kind_of(sections(client())) == 3


def test_3_2_a_kind_that_is_none_is_rejected_with_invalid_field(client: New) -> None:
    outcome = put(client(), annotated(6, text("x")))
    assert outcome.remote.condition is not None
    assert outcome.remote.condition.name == "amqp:invalid-field"
    assert put(client(), of_value(text("x"))).settled
