"""Messages of chance are written through each door and read through each other door.

A reader either has a message or is told why not, and changes nothing. A consumer has every message
that its door has a form for; the others are where the door says. Nothing is lost, no door fails.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from math import inf, nan
from typing import Any, NamedTuple
from uuid import UUID

import pytest

pytest.importorskip("proton", reason="python-qpid-proton is built by a C compiler; there is none")

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from proton import Data, Delivery

from mayfly import MQError, QueueManager, jms, pymqi
from mayfly.cli.dlq import letter_cells
from mayfly.cli.show import as_json, as_line
from mayfly.client.connection import Connection, connect
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.properties import pack_folder, pack_header
from mayfly.mqi.structures import DDH, DLH, XQH
from mayfly.pipeline.bulk.queue_client import Filters, QueueClient
from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import Array, Described, Scalar, Section, Value, symbol, text
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.servers.flight import FlightServer
from mayfly.services.dead_letter import dead_letter_of
from mayfly.services.dead_letter.dead_letters import letter_as_json
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.facts import PropertyQuestion
from mayfly.verbs.messages import Message
from mayfly.verbs.properties.folders import properties_of_mapping
from tests.bulk.books import TOKEN
from tests.connection.serving import AdmitEverybody
from tests.facts import wait_until
from tests.servers.amqp.client import Client
from tests.servers.amqp.conftest import OneUser
from tests.servers.http.conftest import listening
from tests.servers.http.rest_client import RestClient

#: Is the last message of a queue, behind those of chance.
LAST = b"the last one of them"
START_MS = 1_700_000_000_000
OBJECTS = """
DEFINE QLOCAL(Q1) MSGDLVSQ(FIFO)
DEFINE QLOCAL(R)
DEFINE QLOCAL(DEAD)
ALTER QMGR DEADQ(DEAD)
"""
CMQC = pymqi.CMQC

# What is written.

NAMES = st.sampled_from(
    """a x-y amqp.Annotations amqp.Properties amqp.MessageId amqp.ContentType amqp.ReplyToGroupId
    amqp.b.c mcd.Msd mcd.Type mcd.Set mcd.msgbody jms.Seq jms.Gid jms.Rto jms.Cid jms.Dst jms.Tms
    jms.Exp mqps.Top JMSXGroupID JMSXGroupSeq JMSType JMSReplyTo JMSCorrelationID MayflyReason
    MayflyExpiredAt usr.a AMQ_SCHEDULED_DELAY _AMQ_SCHED_DELIVERY \u00fc""".split()
)
TEXTS = st.one_of(
    st.sampled_from(
        [
            *("", "x", "\0", "\x01\x1f\x7f", "\u00fc\u20ac\U0001f600", "\ufffe", "\r\n", "a" * 300),
            *("{}", "[]", '{"a":[9999,1]}', '{"a":[0,"ff"]}', '{"a":[21,5]}', "[" * 3_000),
            *('{"\u00fc":[21,"x"]}', '{"a":1}', '{"a":[0,"40"]}', '{"a":[9,"x"]}', "<x>", "]]>"),
            *("AMQP_ULONG:5", "AMQP_ULONG:" + "9" * 5_000, "AMQP_UUID:z", "AMQP_BINARY:f"),
            *("jms_map", "jms_text", "jms_stream", "jms_bytes", "jms_object", "jms_none"),
            *("topic://a", "queue://", "queue:///Q?x=%zz", "9" * 5_000, "-1", "1e999", "\ud800"),
        ]
    ),
    st.text(max_size=20),
)
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(), st.booleans(), st.sampled_from([0, 1, 2**31])
)
VALUES = st.one_of(TEXTS, NUMBERS, st.none(), st.binary(max_size=30))

_UNSIGNED = {Data.UBYTE: 8, Data.USHORT: 16, Data.UINT: 32, Data.ULONG: 64}
_SIGNED = {Data.BYTE: 8, Data.SHORT: 16, Data.INT: 32, Data.LONG: 64, Data.TIMESTAMP: 64}
_PLAIN = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS = st.one_of(
    *(st.builds(Scalar, st.just(t), st.integers(0, 2**n - 1)) for t, n in _UNSIGNED.items()),
    *(
        st.builds(Scalar, st.just(t), st.integers(-(2 ** (n - 1)), 2 ** (n - 1) - 1))
        for t, n in _SIGNED.items()
    ),
    st.builds(Scalar, st.just(Data.BOOL), st.booleans()),
    st.builds(
        Scalar, st.just(Data.FLOAT), st.sampled_from([0.0, -0.0, 1.5, -(2.0**100), inf, -inf, nan])
    ),
    st.builds(Scalar, st.just(Data.DOUBLE), st.floats()),
    st.builds(Scalar, st.just(Data.CHAR), st.characters(codec="utf-8")),
    st.builds(Scalar, st.just(Data.UUID), st.integers(0, 2**128 - 1).map(lambda n: UUID(int=n))),
    st.builds(Scalar, st.just(Data.BINARY), st.binary(max_size=30)),
    st.builds(Scalar, st.just(Data.STRING), _PLAIN),
    st.builds(Scalar, st.just(Data.SYMBOL), st.text(st.characters(codec="ascii"), max_size=9)),
    st.builds(Scalar, st.just(Data.DECIMAL32), st.integers(0, 2**32 - 1)),
    st.builds(Scalar, st.just(Data.DECIMAL128), st.binary(min_size=16, max_size=16)),
)
ARRAYS = st.builds(
    lambda one, count, descriptor: Array(one.type, descriptor, [one] * count),
    SCALARS,
    st.integers(0, 3),
    st.lists(SCALARS, max_size=1),
)
AMQP_VALUES: st.SearchStrategy[Value] = st.recursive(
    st.one_of(SCALARS, ARRAYS, st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(SCALARS, inner, max_size=3),
        st.builds(Described, SCALARS, inner),
    ),
    max_leaves=6,
)
APPLICATION_PROPERTIES: st.SearchStrategy[dict[Value, Value]] = st.dictionaries(
    NAMES.map(text), SCALARS, max_size=3
)
ANNOTATIONS: st.SearchStrategy[dict[Value, Value]] = st.dictionaries(
    st.sampled_from(
        """x-opt-jms-msg-type x-opt-jms-reply-to x-opt-jms-dest x-opt-mq-report x-opt-delivery-time
        x-opt-delivery-delay x-delay x-opt-mine""".split()
    ).map(symbol),
    st.one_of(st.builds(Scalar, st.just(Data.BYTE), st.integers(0, 6)), AMQP_VALUES),
    max_size=3,
)
FIELDS = st.lists(st.one_of(st.none(), st.none(), st.none(), AMQP_VALUES), max_size=14)
BODIES = st.one_of(
    st.lists(st.builds(Section, st.just(codec.VALUE), AMQP_VALUES), min_size=1, max_size=1),
    st.lists(
        st.builds(Section, st.just(codec.SEQUENCE), st.lists(AMQP_VALUES, max_size=3)),
        min_size=1,
        max_size=2,
    ),
    st.lists(
        st.builds(
            Section,
            st.just(codec.DATA),
            st.builds(Scalar, st.just(Data.BINARY), st.binary(max_size=9)),
        ),
        max_size=2,
    ),
)


@st.composite
def of_amqp(draw: st.DrawFn) -> bytes:
    """Return a message as a client of AMQP sends it."""
    fronts = [
        Section(codec.HEADER, draw(st.lists(st.one_of(st.none(), AMQP_VALUES), max_size=6))),
        Section(codec.MESSAGE_ANNOTATIONS, draw(ANNOTATIONS)),
        Section(codec.PROPERTIES, draw(FIELDS)),
        Section(
            codec.APPLICATION_PROPERTIES,
            draw(APPLICATION_PROPERTIES),
        ),
    ]
    kept = draw(st.lists(st.booleans(), min_size=4, max_size=4))
    front = [section for section, is_kept in zip(fronts, kept, strict=True) if is_kept]
    return codec.encoded([*front, *draw(BODIES)])


class Raw(NamedTuple):
    """A message as a program of the MQI puts it."""

    descriptor: Descriptor
    body: bytes


@st.composite
def folders(draw: st.DrawFn) -> str:
    """Return a folder of an MQRFH2, right or wrong."""
    name = draw(st.sampled_from("usr mcd jms amqp mqps other".split()))
    inner = ""
    for _ in range(draw(st.integers(0, 3))):
        element = draw(NAMES).rpartition(".")[2]
        dt = draw(st.sampled_from(["", " dt='i4'", " dt='char'", " dt='bin.hex'", " dt='zz'"]))
        nil = draw(st.sampled_from(["", "", " xsi:nil='true'"]))
        value = draw(
            st.sampled_from(["1", "x", "", "&#0;", "&#xD800;", "jms_map", "<q>1</q>", "<q>"])
        )
        inner += f"<{element}{dt}{nil}>{value}</{element}>"
    return f"<{name}>{inner}</{name}>"


@st.composite
def of_mqi(draw: st.DrawFn) -> Raw:
    """Return a message with headers of MQ, right, cut or with a byte changed."""
    data = draw(
        st.one_of(
            st.sampled_from(
                [
                    b"",
                    b"<map><elt name='a' dt='i4'>1</elt></map>",
                    b"<map><elt name='a' dt='char'></elt></map>",
                    b"<stream><elt dt='char'>xy</elt>",
                ]
            ),
            st.binary(max_size=20),
            st.builds(lambda value: codec.encoded([Section(codec.VALUE, value)]), AMQP_VALUES),
        )
    )
    data_format = draw(st.sampled_from(["", "MQSTR", "AMQP", "MQHRF2", "MQDEAD", "MQXMIT"]))
    ccsid = draw(st.sampled_from([1208, 1200, 819, 850, 500, 9999, 65535]))
    encoding = draw(st.sampled_from([273, 546]))
    for header, name in ((DLH, "MQDEAD"), (XQH, "MQXMIT"), (DDH, "MQHDDLY")):
        if draw(st.integers(0, 9)) == 0:
            fields = {"Format": data_format.ljust(8)} if header is DLH else {}
            data, data_format = header.pack(fields) + data, name
    if draw(st.booleans()):
        packed = b"".join(pack_folder(text) for text in draw(st.lists(folders(), max_size=3)))
        data = pack_header(packed, data_format, encoding, ccsid) + data
        data_format, ccsid, encoding = "MQHRF2", 1208, 273
    if data and draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(data) - 1))
        data = data[:place] + draw(st.binary(max_size=2)) + data[place + 1 :]
    descriptor = Descriptor(
        format=data_format,
        coded_char_set_id=ccsid,
        encoding=encoding,
        msg_type=draw(st.sampled_from([c.MQMT_DATAGRAM, c.MQMT_REPORT, 65_536])),
        feedback=draw(st.sampled_from([0, c.MQFB_EXPIRATION, 70_000])),
        reply_to_q="R",
    )
    return Raw(descriptor, data)


class Program(NamedTuple):
    """Properties by name, and data, as ``put(properties=)`` has them."""

    body: bytes
    properties: dict[str, object]


class Request(NamedTuple):
    """Text with headers ``ibm-mq-usr``."""

    text: str
    usr: list[str]


class OfJms(NamedTuple):
    """A message of JMS: its kind, the values of its body, headers and properties."""

    kind: str
    values: list[object]
    names: list[str]
    properties: dict[str, object]
    correlation_id: str | None
    jms_type: str | None


WRITTEN: st.SearchStrategy[Any] = st.one_of(
    of_amqp(),
    of_mqi(),
    st.builds(Program, st.binary(max_size=9), st.dictionaries(NAMES, VALUES, max_size=3)),
    st.builds(
        Request,
        _PLAIN,
        st.lists(
            st.builds(
                lambda name, text: f"{name};{json.dumps(text, ensure_ascii=False)};string",
                NAMES,
                TEXTS.filter(lambda text: text.isprintable() and len(text) < 2_000),
            ),
            max_size=2,
        ),
    ),
    st.builds(
        OfJms,
        st.sampled_from(["", "text", "bytes", "map", "stream"]),
        st.lists(VALUES, max_size=3),
        st.lists(TEXTS, min_size=3, max_size=3),
        st.dictionaries(NAMES, VALUES, max_size=2),
        st.one_of(st.none(), TEXTS),
        st.one_of(st.none(), TEXTS),
    ),
)


class Doors:
    """A queue manager behind all its doors."""

    def __init__(self, qm: QueueManager, amqp_port: int, rest: RestClient, flight: str) -> None:
        """Open a client of each."""
        self.qm, self.rest = qm, rest
        self._amqp_port, self._flight = amqp_port, flight
        self.program: Connection = connect("QM1")
        self.session = qm.session()
        self._target = self.program.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle
        self._jms = jms.ConnectionFactory(qm).create_connection()
        self._jms.start()
        self._jms_session = self._jms.create_session()
        self._queue = self._jms_session.create_queue("Q1")
        self._producer = self._jms_session.create_producer(self._queue)
        self._pymqi = pymqi.connect("QM1")
        both = CMQC.MQOO_BROWSE | CMQC.MQOO_INPUT_SHARED
        self._pymqi_queue = pymqi.Queue(self._pymqi, "Q1", both)
        self._consumers = QueueClient(flight, token=TOKEN)
        self._client: Client | None = None
        self._sender: Any = None

    def close(self) -> None:
        """Close them."""
        self._jms.close()
        self._pymqi.disconnect()
        self._consumers.close()
        if self._client is not None:
            self._client.close()
        self.session.close()
        self.program.close()

    @property
    def client(self) -> Client:
        """The client of AMQP, always the same: nothing that is sent or got may end it."""
        if self._client is None:
            self._client = Client(self._amqp_port)
            self._sender = self._client.sender("Q1")
        return self._client

    def present(self) -> list[Message]:
        """Return the messages on the queue, in order."""
        return list(self.session.browse("Q1"))

    # Each door as a writer: the message is put, or refused in the manner of the door.

    def write(self, given: object) -> None:
        """Put a message by its door."""
        match given:
            case bytes():
                self.client.send(self._sender, given)
            case Raw(descriptor, body):
                with suppress(MQError):
                    self.program.put(self._target, body, descriptor)
            case Program(body, properties):
                with suppress(MQError):
                    found = properties_of_mapping(properties)
                    self.program.put(self._target, body, Descriptor(), properties=found)
            case Request(body, usr):
                answer = self.rest.put("Q1", body, **{"ibm-mq-usr": usr})
                assert answer.status in (201, 400), answer
            case OfJms():
                with suppress(jms.JMSException, ValueError):
                    self._producer.send(self._made(given))
            case _:
                raise AssertionError(given)

    def _made(self, given: OfJms) -> jms.Message:
        session = self._jms_session
        message: jms.Message
        match given.kind:
            case "text":
                body = given.names[0]
                message = session.create_text_message(body)
            case "map":
                message = session.create_map_message()
                for name, value in zip(given.names, given.values, strict=False):
                    message.set_object(name, value)
            case "stream":
                message = session.create_stream_message()
                for value in given.values:
                    message.write_object(value)
            case "bytes":
                message = session.create_bytes_message(b"".join(map(_as_bytes, given.values)))
            case _:
                message = session.create_message()
        for name, value in given.properties.items():
            message.set_object_property(name, value)
        message.jms_correlation_id, message.jms_type = given.correlation_id, given.jms_type
        return message

    # Each door as a reader.

    def browse(self) -> None:
        """Look at all that is there through every door; none of them fails or changes anything."""
        before = [(m.msg_id, m.body, m.backout_count) for m in self.present()]
        for look in (
            self._browse_session,
            self._browse_as_operators,
            self._browse_jms,
            self._browse_pymqi,
            self._browse_rest,
            self._browse_flight,
            self._browse_amqp,
        ):
            look()
            assert [(m.msg_id, m.body, m.backout_count) for m in self.present()] == before, look

    def _browse_session(self) -> None:
        for message in self.present():
            with suppress(MQError):
                assert message.properties is not None
                assert message.data is not None
            assert repr(message)
        for selector in ("JMSType = 'x' OR a > 1", "JMSTimestamp > 0", "amqp.MessageId IS NULL"):
            list(self.session.browse("Q1", selector=selector))

    def _browse_as_operators(self) -> None:
        for message in self.present():
            letter = dead_letter_of(message)
            for shown in (as_json(message), letter_as_json(message, letter)):
                assert json.dumps(shown, ensure_ascii=False).encode()
            assert " ".join((as_line(message), *letter_cells(message, letter))).encode()
            assert self.qm.why(message.msg_id).sentence.encode()
        self.qm.traces.with_property(PropertyQuestion("a", "1", None, None, 20))

    def _browse_jms(self) -> None:
        with closing(self._jms_session.create_browser(self._queue)) as browser:
            for message in browser:
                _read_of_jms(message)

    def _browse_pymqi(self) -> None:
        for way in (
            CMQC.MQGMO_PROPERTIES_FORCE_MQRFH2,
            CMQC.MQGMO_NO_PROPERTIES | CMQC.MQGMO_CONVERT,
            CMQC.MQGMO_PROPERTIES_IN_HANDLE,
        ):
            first = CMQC.MQGMO_BROWSE_FIRST
            for _ in self.present():
                handle = pymqi.MessageHandle(self._pymqi)
                gmo = pymqi.GMO(Version=CMQC.MQGMO_VERSION_4, Options=way | first)
                if way == CMQC.MQGMO_PROPERTIES_IN_HANDLE:
                    gmo.MsgHandle = handle.msg_handle
                first, md = CMQC.MQGMO_BROWSE_NEXT, pymqi.MD()
                with suppress(pymqi.MQMIError):
                    body = self._pymqi_queue.get(None, md, gmo)
                    if md.Format.strip() == b"MQHRF2":
                        with suppress(pymqi.PYIFError):
                            pymqi.RFH2().unpack(body)
                    for name in (b"a", b"JMSType", b"JMSXGroupSeq", b"amqp.Annotations"):
                        with suppress(pymqi.MQMIError):
                            handle.properties.get(name)

    def _browse_rest(self) -> None:
        for version in (1, 3):
            rest = self.rest if version == 3 else RestClient(self.rest.web, version)
            for message in self.present():
                shown = message.msg_id.hex()
                answer = rest.browse("Q1", f"?messageId={shown}")
                assert answer.status in (200, 501), answer
            assert rest.list("Q1").status == 200

    def _browse_flight(self) -> None:
        for within in self._consumers.ranges("Q1", 1):
            batches = list(self._consumers.browse("Q1", *within, Filters()))
            for batch in batches:
                assert batch.to_pylist()

    def _browse_amqp(self) -> None:
        count = len(self.present())
        if count:
            receiver = self.client.receiver("Q1", copies=True, credit=count)
            for _ in range(count):
                _received(self.client, receiver)
            self.client.end(receiver)

    # Each door as a consumer: it takes all that it has a form for.

    def consume_amqp(self) -> None:
        """What has no form in AMQP is a dead letter with a reason."""
        before = self.present()
        self.session.put("Q1", LAST)
        receiver = self.client.receiver("Q1", credit=len(before) + 1)
        count = 0
        while LAST not in _received(self.client, receiver):
            count += 1
        self.client.end(receiver)
        wait_until(lambda: self.qm.counts("Q1")._replace(staged=0) == (0, 0, 0, 0, 0))
        assert self.qm.curdepth("DEAD") == len(before) - count
        for message in self.session.browse("DEAD"):
            letter = dead_letter_of(message)
            assert letter is not None
            assert letter.reason == rc.MQRC_FORMAT_ERROR

    def consume_jms(self) -> None:
        """JMS has a form for everything."""
        with closing(self._jms_session.create_consumer(self._queue)) as consumer:
            for _ in self.present():
                message = consumer.receive_no_wait()
                assert message is not None
                _read_of_jms(message)
        assert self.qm.curdepth("Q1") == 0

    def consume_rest(self) -> None:
        """What is no text is refused, and stays."""
        for message in self.present():
            answer = self.rest.get("Q1", f"?messageId={message.msg_id.hex()}")
            is_there = any(m.msg_id == message.msg_id for m in self.present())
            assert (answer.status, is_there) in ((200, False), (501, True))

    def consume_session(self) -> None:
        """The native verbs give bytes."""
        for message in self.present():
            got = self.session.get("Q1", msg_id=message.msg_id)
            assert got is not None
            assert got.body == message.body

    def clear(self) -> None:
        """Leave nothing to the next example."""
        for name in ("Q1", "DEAD", "SYSTEM.DDELAY.LOCAL.QUEUE"):
            while self.session.get(name) is not None:
                pass


def _as_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else repr(value).encode("utf-8", "replace")


def _read_of_jms(message: jms.Message) -> None:
    """Read all of a message; only what JMS says may be raised."""
    for name in message.property_names():
        message.get_object_property(name)
    assert repr((message.jms_correlation_id, message.jms_reply_to, message.jms_destination))
    if isinstance(message, jms.TextMessage):
        with suppress(jms.MessageFormatException):
            assert repr(message.text)
    elif isinstance(message, jms.MapMessage):
        for name in message.map_names():
            message.get_object(name)
    elif isinstance(message, jms.StreamMessage):
        with suppress(jms.MessageEOFException):
            while True:
                message.read_object()


def _received(client: Client, receiver: Any) -> bytes:
    """Take one message as bytes that are a message, and accept it."""
    client.until(lambda: (d := receiver.current) is not None and d.readable and not d.partial)
    delivery = receiver.current
    raw = bytes(receiver.recv(delivery.pending))
    receiver.advance()
    assert codec.decoded(raw)
    delivery.update(Delivery.ACCEPTED)
    delivery.settle()
    return raw


CONSUMERS: dict[str, Callable[[Doors], None]] = {
    "AMQP": Doors.consume_amqp,
    "JMS": Doors.consume_jms,
    "REST": Doors.consume_rest,
    "session": Doors.consume_session,
}


@pytest.fixture
def doors() -> Iterator[Doors]:
    with QueueManager("QM1", clock=VirtualClock(START_MS)) as qm:
        assert qm.mqsc(OBJECTS).ok
        amqp = AmqpServer(["QM1"], OneUser(), lambda name, *_who: connect(name, program="AMQP"))
        admits = AdmitEverybody(operators=frozenset({"admin"}))
        with (
            closing(amqp),
            contextmanager(listening)(qm, admission=admits) as site,
            FlightServer(qm, port=0, token=TOKEN) as flight,
        ):
            rest = RestClient(site.web)
            made = Doors(qm, amqp.listen_tcp("127.0.0.1", 0), rest, flight.url)
            with closing(made):
                yield made


@pytest.mark.parametrize(
    ("number", "count"),
    [(0, 60), *(pytest.param(n, 400, marks=pytest.mark.soak) for n in range(1, 16))],
)
def test_a_message_of_any_door_is_read_or_refused_with_a_reason_by_each(
    doors: Doors, caplog: pytest.LogCaptureFixture, number: int, count: int
) -> None:
    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(WRITTEN, min_size=1, max_size=4), st.sampled_from(sorted(CONSUMERS)))
    def each(written: list[object], consumer: str) -> None:
        doors.clear()
        for message in written:
            doors.write(message)
        doors.browse()
        CONSUMERS[consumer](doors)

    with caplog.at_level(logging.ERROR):
        each()
    assert [record.getMessage() for record in caplog.records] == []
    assert doors.qm.verify().ok
