"""IBM's REST API for messaging: queues, lists, topics, headers, waits and errors."""

from __future__ import annotations

import asyncio
import base64
import http.client
import socket
from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.client.connection import LocalConnection
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.descriptor import Descriptor
from mayfly.servers.status import ServingState
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from mayfly.verbs.properties.selectors.names import correlation_bytes
from mayfly.verbs.requests import Put1
from tests.connection.serving import AdmitEverybody
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.servers.http.asking import Asked, application_of, ask
from tests.servers.http.conftest import Answer, Site, Web, answer_of, listening
from tests.servers.http.rest_client import RestClient, error_of, md

REMOTE = "DEFINE QLOCAL(Y) USAGE(XMITQ)\nDEFINE QREMOTE(R) RNAME(X) RQMNAME(Y)"
START_MS = 1_700_000_000_000
LONGEST_DELAY_MS = LATEST_DUE_MS - START_MS


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START_MS)


@pytest.fixture
def rest(web: Web) -> RestClient:
    """Version 3, for a user who may do everything."""
    return RestClient(web, user=("admin", ""))


@pytest.fixture
def first(web: Web) -> RestClient:
    """Version 1."""
    return RestClient(web, 1, user=("admin", ""))


def got_of(queue_manager: QueueManager, queue: str = "Q1") -> Message:
    """Get a message in the process itself."""
    with queue_manager.session() as session:
        message = session.get(queue)
    assert message is not None
    return message


def put_here(queue_manager: QueueManager, body: bytes, descriptor: Descriptor) -> None:
    """Put a message with a descriptor, as a program of the MQI does."""
    connection = LocalConnection(queue_manager.session(), queue_manager)
    connection.call(Put1.of("Q1", body, descriptor))
    connection.close()


# Put, browse, get


@pytest.mark.parametrize("length", [5, 300_000])
def test_a_request_that_came_whole_is_carried_out_when_its_client_is_gone(
    rest: RestClient, web: Web, queue_manager: QueueManager, length: int
) -> None:
    head = (
        f"POST {rest.queue('Q1')} HTTP/1.1",
        "Host: localhost",
        "Content-Type: text/plain;charset=utf-8",
        "ibm-mq-rest-csrf-token: ",
        f"Authorization: Basic {base64.b64encode(b'admin:').decode()}",
        f"Content-Length: {length}",
    )
    request = "\r\n".join((*head, "", "x" * length)).encode()
    for _ in range(10):
        with socket.create_connection(("127.0.0.1", web.port)) as client:
            client.sendall(request)
    wait_until(lambda: queue_manager.counts("Q1").live == 10)


def test_a_message_is_put_browsed_and_got(rest: RestClient) -> None:
    put = rest.put("Q1", "Grüße, 世界")
    assert (put.status, put.content) == (201, "")
    message_id = md(put)["messageid"]
    assert message_id.startswith("ID:")
    for answer in (rest.browse("Q1"), rest.get("Q1")):
        assert (answer.status, answer.content) == (200, "Grüße, 世界")
        assert answer.headers["content-type"] == "text/plain;charset=utf-8"
        assert md(answer) == {
            "messageid": message_id,
            "expiry": "unlimited",
            "persistence": "nonPersistent",
            "priority": "0",
        }
    for empty in (rest.browse("Q1"), rest.get("Q1")):
        assert (empty.status, empty.content) == (204, "")
        assert "content-length" not in empty.headers


def test_the_first_versions_have_hexadecimal_ids_and_priority_4(
    first: RestClient, queue_manager: QueueManager
) -> None:
    correlation = "414d5120514d312020202020202020208b3a2f5c01000000"
    put = first.put("Q1", ibm_mq_md_correlationId=correlation, ibm_mq_md_priority="9")
    message_id = md(put)["messageid"]
    assert len(bytes.fromhex(message_id)) == 24
    assert md(first.browse("Q1")) == {
        "messageid": message_id,
        "correlationid": correlation,
        "expiry": "unlimited",
        "persistence": "nonPersistent",
    }
    assert got_of(queue_manager).descriptor.priority == 4


def test_a_message_is_text_for_programs_of_the_mqi(
    rest: RestClient, queue_manager: QueueManager
) -> None:
    put = rest.put(
        "Q1",
        "{}",
        content_type="application/json",
        ibm_mq_md_persistence="persistent",
        ibm_mq_md_priority="7",
        ibm_mq_md_replyTo="REPLIES@QM2",
    )
    assert put.status == 201
    message = got_of(queue_manager)
    descriptor = message.descriptor
    assert (descriptor.format, descriptor.coded_char_set_id) == ("MQSTR", 1208)
    assert (descriptor.msg_type, descriptor.priority) == (c.MQMT_REQUEST, 7)
    assert (descriptor.reply_to_q, descriptor.reply_to_q_mgr) == ("REPLIES", "QM2")
    assert (message.persistent, message.body) == (True, b"{}")
    assert descriptor.user_identifier == "admin"


def test_headers_come_back(rest: RestClient) -> None:
    rest.put(
        "Q1",
        ibm_mq_md_persistence="persistent",
        ibm_mq_md_priority="0",
        ibm_mq_md_replyTo="REPLIES",
        ibm_mq_md_correlationId="ID:" + "0a" * 24,
    )
    got = md(rest.get("Q1"))
    assert (got["persistence"], got["priority"], got["replyto"]) == (
        "persistent",
        "0",
        "REPLIES@QM1",
    )
    assert got["correlationid"] == "ID:" + "0a" * 24


def test_priority_and_persistence_are_those_of_the_queue_where_asked(
    rest: RestClient, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) DEFPSIST(YES) DEFPRTY(3)").ok
    rest.put("Q1", ibm_mq_md_persistence="asDestination", ibm_mq_md_priority="asDestination")
    rest.put("Q1")
    for persistence in ("persistent", "nonPersistent"):
        got = md(rest.get("Q1"))
        assert (got["persistence"], got["priority"]) == (persistence, "3")


@pytest.mark.parametrize("ccsid", [1208, 0, 37, 819, 1200, 13488])
def test_text_in_other_character_sets_comes_as_utf_8(
    rest: RestClient, queue_manager: QueueManager, ccsid: int
) -> None:
    codec = {1208: "utf-8", 0: "utf-8", 37: "cp037", 819: "latin-1"}.get(ccsid, "utf-16-le")
    text = Descriptor(format="MQSTR", coded_char_set_id=ccsid, encoding=c.MQENC_INTEGER_REVERSED)
    put_here(queue_manager, "Grüße".encode(codec), text)
    assert rest.get("Q1").content == "Grüße"


# Life, delay and reports


def test_E4_expiry_is_in_ms_and_what_is_left_comes_back(
    rest: RestClient, clock: VirtualClock
) -> None:
    rest.put("Q1", ibm_mq_md_expiry="120000")
    clock.advance(119_999)
    assert md(rest.browse("Q1"))["expiry"] == "1"
    clock.advance(1)
    assert rest.get("Q1").status == 204


def test_D1_a_delivery_delay_holds_a_message_back(rest: RestClient, clock: VirtualClock) -> None:
    assert rest.put("Q1", mayfly_delivery_delay="5000").status == 201
    clock.advance(4_999)
    assert rest.get("Q1").status == 204
    clock.advance(1)
    assert rest.get("Q1").status == 200


def test_D34_only_one_delayed_message_waits_under_a_key(
    rest: RestClient, queue_manager: QueueManager
) -> None:
    keyed = {"mayfly_delivery_delay": "5000", "mayfly_key": "order 42"}
    assert rest.put("Q1", **keyed).status == 201
    status, _number, reason, _text = error_of(rest.put("Q1", **keyed))
    assert (status, reason) == (409, rc.MQRC_OBJECT_ALREADY_EXISTS)
    assert rest.put("Q1", mayfly_if_exists="replace", **keyed).status == 201
    assert queue_manager.curdepth(STAGING_QUEUE) == 1
    status, _number, reason, text = error_of(rest.put("Q1", mayfly_if_exists="keep", **keyed))
    assert (status, reason) == (400, rc.MQRC_OPTIONS_ERROR)
    assert "if_exists 'keep' is not refuse or replace" in text


def test_D9_a_message_with_a_group_is_not_delayed(
    rest: RestClient, queue_manager: QueueManager
) -> None:
    group = {"ibm_mq_usr": 'JMSXGroupID;"G";string'}
    answer = rest.put("Q1", mayfly_delivery_delay="5000", **group)
    assert error_of(answer)[:3] == (400, "MQWB0303E", rc.MQRC_OPTIONS_ERROR)
    assert rest.put("Q1", **group).status == 201
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth(STAGING_QUEUE)) == (1, 0)


@pytest.mark.parametrize("given", ["-1", "1.5", "soon", "", str(LONGEST_DELAY_MS + 1)])
def test_D2_a_wrong_delay_is_named_with_its_reason(rest: RestClient, given: str) -> None:
    status, number, reason, text = error_of(rest.put("Q1", mayfly_delivery_delay=given))
    assert (status, number, reason) == (400, "MQWB0302E", rc.MQRC_OPTIONS_ERROR)
    assert text == (
        f"mayfly-delivery-delay {given!r} is not a whole number of ms from 0 to {LONGEST_DELAY_MS}"
    )


def test_the_longest_delay_ends_in_the_year_2109(
    rest: RestClient, queue_manager: QueueManager
) -> None:
    """As by every other door."""
    assert rest.put("Q1", mayfly_delivery_delay=str(LONGEST_DELAY_MS)).status == 201
    assert queue_manager.counts("Q1").staged == 1


def test_E20_an_expired_message_is_reported_to_its_sender(
    rest: RestClient, clock: VirtualClock
) -> None:
    put = rest.put(
        "Q1",
        ibm_mq_md_expiry="1000",
        ibm_mq_md_replyTo="Q2",
        mayfly_report="expiration-with-full-data, MQRO_COD",
    )
    headers = rest.browse("Q1").headers
    assert headers["mayfly-report"] == "expiration-with-full-data, cod"
    assert "mayfly-feedback" not in headers
    clock.advance(1_000)
    assert rest.get("Q1").status == 204
    report = rest.get("Q2")
    assert (report.status, report.content) == (200, "Hello")
    assert report.headers["mayfly-feedback"] == str(c.MQFB_EXPIRATION)
    assert md(report)["correlationid"] == md(put)["messageid"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_R1_a_delivery_is_confirmed_to_its_sender(web: Web, version: int) -> None:
    rest = RestClient(web, version, user=("admin", ""))
    put = rest.put("Q1", ibm_mq_md_replyTo="Q2", mayfly_report="coa,cod")
    assert rest.get("Q1").status == 200
    found = []
    while (report := rest.get("Q2")).status == 200:
        assert (report.content, md(report)["correlationid"]) == ("", md(put)["messageid"])
        found.append(int(report.headers["mayfly-feedback"]))
    assert found == [c.MQFB_COA, c.MQFB_COD]


@pytest.mark.parametrize(
    ("headers", "reason", "said"),
    [
        ({"mayfly_report": "everything"}, 2061, "mayfly-report 'everything' is not made of"),
        ({"mayfly_report": "coa,,cod"}, 2061, "mayfly-report 'coa,,cod' is not made of"),
        ({"mayfly_report": "coa", "ibm_mq_md_replyTo": ""}, 2027, "queue 'Q1': MQRC_MISSING_REPLY"),
    ],
)
def test_P2_wrong_reports_are_named_with_their_reason(
    rest: RestClient, headers: dict[str, str], reason: int, said: str
) -> None:
    status, number, found, text = error_of(rest.put("Q1", **headers))
    assert (status, number, found) == (400, "MQWB0302E", reason)
    assert text.startswith(said)
    assert rest.list("Q1").content == {"messages": []}


@pytest.mark.parametrize(
    ("header", "value", "said", "reason"),
    [
        ("expiry", "0", "'0' is not unlimited, or 1 to 99999999900 ms", 2013),
        ("expiry", "-1", "'-1' is not unlimited, or 1 to 99999999900 ms", 2013),
        ("expiry", "99999999901", "is not unlimited, or 1 to 99999999900 ms", 2013),
        ("expiry", "1e3", "'1e3' is not unlimited, or 1 to 99999999900 ms", 2013),
        ("expiry", "٣", "is not unlimited, or 1 to 99999999900 ms", 2013),
        ("persistence", "yes", "is not one of nonPersistent, persistent, asDestination", None),
        ("priority", "10", "'10' is not a whole number from 0 to 9", None),
        ("priority", "", "'' is not a whole number from 0 to 9", None),
        ("replyTo", "A B", "'A B' is not QUEUE or QUEUE@QMGR", 2152),
        ("replyTo", "Q1@", "'Q1@' is not QUEUE or QUEUE@QMGR", 2152),
    ],
)
def test_a_wrong_header_is_named_with_its_value(
    rest: RestClient, header: str, value: str, said: str, reason: int | None
) -> None:
    answer = rest.put("Q1", **{f"ibm-mq-md-{header}": value})
    status, number, code, text = error_of(answer)
    assert (status, number, code) == (400, "MQWB0302E", reason)
    assert text.startswith(f"ibm-mq-md-{header} ")
    assert said in text
    assert rest.list("Q1").content == {"messages": []}


def test_the_first_versions_know_no_persistence_of_the_destination(first: RestClient) -> None:
    _, number, _, text = error_of(first.put("Q1", ibm_mq_md_persistence="asDestination"))
    assert number == "MQWB0302E"
    assert text.endswith("is not one of nonPersistent, persistent")
    for wrong in ("ID:" + "00" * 24, "00" * 23, "xy" * 24):
        status, _, _, text = error_of(first.put("Q1", ibm_mq_md_correlationId=wrong))
        assert (status, text.endswith("is not 48 hexadecimal digits")) == (400, True)


# Properties of an application, and ids that are text


def test_user_properties_make_a_text_message_of_jms(
    rest: RestClient, queue_manager: QueueManager
) -> None:
    rest.put(
        "Q1",
        "x",
        ibm_mq_usr=[
            'colour;"red; or, \\"blue\\" \\\\";string, size;-5;short',
            "big;9000000000;long",
            "price;1.5;double,ratio;0.5;float , is_new;true;boolean",
            'town;"Köln";string',
        ],
        ibm_mq_md_correlationId="order 7",
    )
    with queue_manager.session() as session:
        [message] = session.browse("Q1")
    assert message.properties == {
        "mcd.Msd": "jms_text",
        "colour": 'red; or, "blue" \\',
        "size": -5,
        "big": 9_000_000_000,
        "price": 1.5,
        "ratio": 0.5,
        "is_new": True,
        "town": "Köln",
        "jms.Cid": "order 7",
    }
    assert (message.descriptor.format, message.data) == ("MQHRF2", b"x")
    got = rest.get("Q1")
    assert (got.content, md(got)["correlationid"]) == ("x", "order 7")
    assert md(got)["usr"] == (
        'colour;"red; or, \\"blue\\" \\\\";string, size;-5;short, big;9000000000;long, '
        'price;1.5;double, ratio;0.5;float, is_new;true;boolean, town;"Köln";string'
    )


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("colour", "is not name;value;type, with text in double quotes"),
        ("colour;red", "is not name;value;type, with text in double quotes"),
        ('colour;"red;string', "is not name;value;type, with text in double quotes"),
        ("size;5;number", "is not of a type that is known: boolean, byte, short, "),
        ("size;x;integer", "property size"),
        ("size;40000;short", "property size"),
        ("a;1;integer,a;2;integer", "without a second a"),
        ("1a;1;integer", "property '1a'"),
    ],
)
def test_a_wrong_property_is_named(rest: RestClient, header: str, said: str) -> None:
    status, number, _, text = error_of(rest.put("Q1", ibm_mq_usr=header))
    assert (status, number) == (400, "MQWB0302E")
    assert text.startswith(f"ibm-mq-usr {header!r} is not ")
    assert said in text


def test_properties_are_for_version_3(first: RestClient, queue_manager: QueueManager) -> None:
    first.put("Q1", ibm_mq_usr="size;5;integer")
    assert got_of(queue_manager).properties == {}


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"JMSCorrelationID": "two\nlines"}, "ibm-mq-md-correlationId has control characters"),
        ({"JMSCorrelationID": "\x1f"}, "ibm-mq-md-correlationId has control characters"),
    ],
)
def test_an_id_that_no_header_can_hold_leaves_the_message(
    rest: RestClient, queue_manager: QueueManager, properties: dict[str, object], said: str
) -> None:
    with queue_manager.session() as session:
        correl_id = correlation_bytes(str(properties["JMSCorrelationID"]))
        given = {"mcd.Msd": "jms_text", **properties}
        session.put("Q1", b"", correl_id=correl_id, properties=given)
    for ask_for in (rest.browse, rest.get):
        status, number, _reason, text = error_of(ask_for("Q1"))
        assert (status, number) == (501, "MQWB0304E")
        assert said in text
    assert queue_manager.curdepth("Q1") == 1


def test_a_property_that_no_header_can_hold_leaves_the_message(
    rest: RestClient, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"x", format_name="MQSTR", properties={"lines": "one\ntwo"})
    status, number, _, text = error_of(rest.get("Q1"))
    assert (status, number) == (501, "MQWB0304E")
    assert "property lines" in text
    assert got_of(queue_manager).backout_count == 0


# Which message


def put_with(rest: RestClient, number: int, correlation: str) -> str:
    """Put a message with a correlation id of text; return its message id."""
    return md(rest.put("Q1", f"{number}", ibm_mq_md_correlationId=correlation))["messageid"]


def test_ids_choose_a_message(rest: RestClient, first: RestClient) -> None:
    ids = [put_with(rest, n, f"c{n % 2}") for n in range(4)]
    assert rest.browse("Q1", f"?messageId={ids[2]}").content == "2"
    assert first.browse("Q1", f"?messageId={ids[3].removeprefix('ID:')}").content == "3"
    assert rest.get("Q1", "?correlationId=c1").content == "1"
    assert rest.get("Q1", f"?correlationId=c1&messageId={ids[0]}").status == 204
    assert rest.get("Q1", f"?correlationId=c1&messageId={ids[3]}").content == "3"
    assert rest.get("Q1", "?correlationId=it's").status == 204
    correlation = b"c0".ljust(24, b"\0").hex()
    assert first.get("Q1", f"?correlationId={correlation}").content == "0"
    assert rest.get("Q1", f"?correlationId=ID:{correlation}").content == "2"


def test_a_list_has_ids_and_formats_and_no_text(
    rest: RestClient, first: RestClient, queue_manager: QueueManager
) -> None:
    given = [put_with(rest, n, f"c{n}") for n in range(12)]
    listed = rest.list("Q1").content["messages"]
    assert [row["messageId"] for row in listed] == given[:10]
    assert listed[1] == {
        "messageId": given[1],
        "correlationId": "ID:" + b"c1".ljust(24, b"\0").hex(),
        "format": "MQHRF2",
    }
    assert len(rest.list("Q1", "?limit=12").content["messages"]) == 12
    [row] = first.list("Q1", f"?messageId={given[11].removeprefix('ID:')}").content["messages"]
    assert row["correlationId"] == b"c11".ljust(24, b"\0").hex()
    assert queue_manager.counts("Q1").live == 12
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
    assert rest.list("Q1").content == {"messages": []}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?wait=-1", "wait '-1' is not a whole number from 0 to 2147483647"),
        ("?wait=2147483648", "wait '2147483648' is not a whole number from 0 to 2147483647"),
        ("?messageId=", "messageId '' is not 48 hexadecimal digits"),
        ("?messageId=ID:00", "messageId '00' is not 48 hexadecimal digits"),
        ("?limit=1", "query parameter 'limit' is not one of correlationId, messageId, wait"),
        ("?wait=1&wait=2", "wait '2' is not there only once"),
    ],
)
def test_a_wrong_query_is_named(rest: RestClient, query: str, said: str) -> None:
    assert error_of(rest.get("Q1", query)) == (400, "MQWB0302E", None, said)


# Messages that are no text


@pytest.mark.parametrize(
    ("descriptor", "body", "said"),
    [
        (Descriptor(), b"\xff", "its format is blank, and it is no TextMessage of JMS"),
        (Descriptor(format="MQIMS"), b"x", "its format is MQIMS, and it is no TextMessage of JMS"),
        (Descriptor(format="MQHRF2"), b"RFH ", "its MQRFH2 is damaged: MQRC_RFH_ERROR"),
        (
            Descriptor(format="MQSTR", coded_char_set_id=1208),
            b"\xff",
            "its data are no text in character set 1208",
        ),
        (
            Descriptor(format="MQSTR", coded_char_set_id=65_000),
            b"x",
            "its character set 65000 is not known",
        ),
    ],
)
def test_what_is_no_text_stays_on_its_queue_uncounted(
    rest: RestClient, queue_manager: QueueManager, descriptor: Descriptor, body: bytes, said: str
) -> None:
    put_here(queue_manager, body, descriptor)
    for _ in range(2):
        status, number, reason, text = error_of(rest.get("Q1"))
        assert (status, number, reason) == (501, "MQWB0303E", None)
        assert said in text
    assert error_of(rest.browse("Q1"))[0] == 501
    got = got_of(queue_manager)
    assert (got.body, got.backout_count) == (body, 0)


# Waits


class Waiting:
    """A get that waits, over a connection of its own."""

    def __init__(self, rest: RestClient, query: str = "?wait=60000") -> None:
        port = rest.web.port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        headers = {"ibm-mq-rest-csrf-token": "", "authorization": "Basic YWRtaW46"}
        self.connection.request("DELETE", rest.queue("Q1") + query, headers=headers)

    def answer(self) -> Answer:
        """Return the answer when it comes."""
        return answer_of(self.connection.getresponse())


def input_count(queue_manager: QueueManager) -> int:
    """Return how many have Q1 open to get."""
    [row] = queue_manager.mqsc("DISPLAY QSTATUS(Q1) IPPROCS").rows
    return int(str(row["IPPROCS"]))


def await_gets(rest: RestClient, queue_manager: QueueManager, count: int) -> None:
    """Return when so many gets of Q1 wait.

    The loop of the server opens the queue and begins the wait in one pass; a probe that is answered
    later tells that the pass is over.
    """
    wait_until(lambda: input_count(queue_manager) == count)
    assert rest.web.ask("GET", "/health/live").status == 200


@pytest.fixture
def waiting(rest: RestClient, queue_manager: QueueManager) -> Iterator[Waiting]:
    """A get that waits for a minute."""
    made = Waiting(rest)
    await_gets(rest, queue_manager, 1)
    yield made
    made.connection.close()


def test_a_wait_ends_with_the_message_that_comes(rest: RestClient, waiting: Waiting) -> None:
    rest.put("Q1", "at last")
    answer = waiting.answer()
    assert (answer.status, answer.content) == (200, "at last")
    assert rest.browse("Q1").status == 204


def test_G6_a_wait_ends_at_its_time_without_a_message(
    waiting: Waiting, clock: VirtualClock
) -> None:
    clock.advance(60_000)
    assert waiting.answer().status == 204


def test_E3_what_expired_before_the_wait_is_not_got(rest: RestClient, clock: VirtualClock) -> None:
    rest.put("Q1", ibm_mq_md_expiry="1000")
    clock.advance(1_000)
    waiting = Waiting(rest, "?wait=0")
    assert waiting.answer().status == 204
    waiting.connection.close()


def test_a_wait_for_an_id_passes_over_other_messages(
    rest: RestClient, queue_manager: QueueManager
) -> None:
    waiting = Waiting(rest, "?wait=60000&correlationId=ID:" + "07" * 24)
    await_gets(rest, queue_manager, 1)
    rest.put("Q1", "other")
    rest.put("Q1", "mine", ibm_mq_md_correlationId="ID:" + "07" * 24)
    assert waiting.answer().content == "mine"
    assert rest.get("Q1").content == "other"
    waiting.connection.close()


def test_a_client_that_goes_while_it_waits_takes_nothing(
    rest: RestClient, waiting: Waiting, queue_manager: QueueManager
) -> None:
    waiting.connection.close()
    wait_until(lambda: input_count(queue_manager) == 0)
    rest.put("Q1", "kept")
    assert rest.get("Q1").content == "kept"


def test_waits_hold_no_threads(rest: RestClient, queue_manager: QueueManager) -> None:
    """More waits than there are threads for requests: another request is answered meanwhile."""
    count = 100
    waits = [Waiting(rest) for _ in range(count)]
    await_gets(rest, queue_manager, count)
    for number in range(count):
        assert rest.put("Q1", f"{number}").status == 201
    got = {wait.answer().content for wait in waits}
    assert got == {f"{number}" for number in range(count)}
    for wait in waits:
        wait.connection.close()


def test_a_drain_ends_waits(site: Site, waiting: Waiting) -> None:
    site.server_status.state = ServingState.DRAINING
    site.listener.drain(60_000)
    assert error_of(waiting.answer())[:3] == (503, "MQWB0300E", 2161)
    late = Waiting(RestClient(site.web))
    assert error_of(late.answer())[:3] == (503, "MQWB0300E", 2161)
    late.connection.close()


def test_a_queue_that_is_inhibited_ends_a_wait(
    waiting: Waiting, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
    status, number, reason, text = error_of(waiting.answer())
    assert (status, number, reason) == (405, "MQWB0303E", 2016)
    assert text.startswith("queue 'Q1': MQRC_GET_INHIBITED")


# Topics


def test_a_publication_reaches_subscribers(rest: RestClient, queue_manager: QueueManager) -> None:
    with queue_manager.session() as session:
        subscription = session.subscribe("sport/#")
        for path in ("sport/football/results", "sport%2Ffootball%2Fresults", "sport/100%25%3F"):
            url = f"{rest.base}/messaging/qmgr/QM1/topic/{path}/message"
            put = rest.ask("POST", url, b"1:0", ibm_mq_md_expiry="5000")
            assert put.status == 201
            message = subscription.get()
            assert message is not None
            assert (message.body, message.remaining_ms) == (b"1:0", 5_000)
            assert message.topic == path.replace("%2F", "/").replace("100%25%3F", "100%?")


def test_topics_begin_with_version_2(rest: RestClient) -> None:
    path = "/messaging/qmgr/QM1/topic/a/message"
    for version, status in ((1, 404), (2, 201), (3, 201)):
        assert rest.ask("POST", f"/ibmmq/rest/v{version}{path}", b"x").status == status
    refused = rest.ask("GET", f"{rest.base}{path}")
    assert error_of(refused) == (405, "MQWB0303E", None, "GET is none of POST")
    assert refused.headers["allow"] == "POST"


# Names, and what is not there


def test_names_hold_slashes_and_percent_signs(
    rest: RestClient, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL('A/B%C')").ok
    assert rest.put("A/B%C", "here").status == 201
    assert rest.get("A/B%C").content == "here"
    assert error_of(rest.ask("GET", f"{rest.base}/messaging/qmgr/QM1/queue/A/B/message"))[0] == 404


def test_several_queue_managers_are_served_by_their_names() -> None:
    with QueueManager("QM1") as one, QueueManager("QM.2") as other:
        for manager in (one, other):
            assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        for site in listening(one, other, admission=AdmitEverybody()):
            rest = RestClient(site.web, user=None, manager="QM%2E2")
            assert rest.put("Q1", "for the second").status == 201
            assert (one.counts("Q1").live, other.counts("Q1").live) == (0, 1)
            rest.manager = "qm1"
            assert error_of(rest.get("Q1")) == (
                404,
                "MQWB0009E",
                2058,
                "queue manager 'qm1' is not served here",
            )


@pytest.mark.parametrize(
    ("definition", "queue", "method", "expected"),
    [
        ("", "NONE", "POST", (404, "MQWB0300E", 2085)),
        ("", "NONE", "DELETE", (404, "MQWB0300E", 2085)),
        ("", "q1", "GET", (404, "MQWB0300E", 2085)),
        ("", "A B", "POST", (404, "MQWB0300E", 2085)),
        ("ALTER QLOCAL(Q1) PUT(DISABLED)", "Q1", "POST", (405, "MQWB0303E", 2051)),
        ("ALTER QLOCAL(Q1) GET(DISABLED)", "Q1", "DELETE", (405, "MQWB0303E", 2016)),
        ("ALTER QLOCAL(Q1) MAXDEPTH(0)", "Q1", "POST", (503, "MQWB0303E", 2053)),
        ("ALTER QLOCAL(Q1) MAXMSGL(4)", "Q1", "POST", (413, "MQWB0303E", 2030)),
        ("DEFINE QMODEL(M)", "M", "POST", (400, "MQWB0303E", 2057)),
        ("DEFINE QREMOTE(R) RNAME(X) RQMNAME(Y)", "R", "POST", (404, "MQWB0300E", 2087)),
        (REMOTE, "R", "DELETE", (400, "MQWB0303E", 2045)),
        (REMOTE + "\nALTER QLOCAL(Y) USAGE(NORMAL)", "R", "POST", (409, "MQWB0303E", 2092)),
    ],
)
def test_failures_of_the_queue_manager_have_their_status(
    rest: RestClient,
    queue_manager: QueueManager,
    definition: str,
    queue: str,
    method: str,
    expected: tuple[int, str, int],
) -> None:
    assert not definition or queue_manager.mqsc(definition).ok
    answer = rest.ask(method, rest.queue(queue), b"Hello" if method == "POST" else None)
    *found, text = error_of(answer)
    assert tuple(found) == expected
    assert text.startswith(f"queue {queue!r}: MQRC_")


def test_a_publication_that_a_subscriber_cannot_take_may_come_again(
    rest: RestClient, queue_manager: QueueManager
) -> None:
    """The topic promises delivery to all, and one queue is full."""
    assert queue_manager.mqsc(
        "ALTER TOPIC(SYSTEM.BASE.TOPIC) NPMSGDLV(ALL)\nALTER QLOCAL(Q1) MAXDEPTH(0)\n"
        "DEFINE SUB(S) TOPICSTR('news') DEST(Q1)"
    ).ok
    topic = f"{rest.base}/messaging/qmgr/QM1/topic/news/message"
    status, number, reason, _text = error_of(rest.ask("POST", topic, b"Hello"))
    assert (status, number, reason) == (503, "MQWB0303E", rc.MQRC_PUBLICATION_FAILURE)
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(1)").ok
    assert rest.ask("POST", topic, b"Hello").status == 201


def test_a_staging_queue_of_the_wrong_index_is_no_queue_that_is_missing() -> None:
    """On z/OS it has no index that finds delayed messages."""
    with QueueManager("QM1", platform="zos") as manager:
        assert manager.mqsc(f"DEFINE QLOCAL({STAGING_QUEUE}) REPLACE\nDEFINE QLOCAL(Q1)").ok
        for site in listening(manager, admission=AdmitEverybody()):
            answer = RestClient(site.web, user=None).put("Q1", mayfly_delivery_delay="5")
            assert error_of(answer)[:3] == (409, "MQWB0303E", rc.MQRC_Q_INDEX_TYPE_ERROR)


def test_a_queue_manager_that_has_stopped_is_not_available() -> None:
    with QueueManager("QM1") as manager:
        for site in listening(manager, admission=AdmitEverybody()):
            manager.crash()
            answer = RestClient(site.web, user=None).put("Q1")
            assert error_of(answer)[:3] == (503, "MQWB0300E", 2009)


@pytest.mark.parametrize(
    "path",
    [
        "/ibmmq/rest/v4/messaging/qmgr/QM1/queue/Q1/message",
        "/ibmmq/rest/v3/messaging/qmgr/QM1/queue/Q1",
        "/ibmmq/rest/v3/messaging/qmgr/QM1/queue/Q1/message/",
        "/ibmmq/rest/v3/messaging/QMGR/QM1/queue/Q1/message",
        "/ibmmq/rest/v3/messaging/qmgr/QM1/topic/message",
        "/ibmmq/rest/",
    ],
)
def test_other_paths_are_not_there(rest: RestClient, path: str) -> None:
    assert error_of(rest.ask("GET", path)) == (404, "MQWB0303E", None, f"nothing is at {path}")


def test_a_path_is_utf_8(rest: RestClient) -> None:
    status, number, _, text = error_of(rest.ask("GET", f"{rest.base}/messaging/qmgr/%FF"))
    assert (status, number) == (400, "MQWB0302E")
    assert text.endswith("is no UTF-8")


# Bodies


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("text/plain", None),
        ("TEXT/PLAIN ; Charset=UTF-8", None),
        ('text/html;charset="utf-8"', None),
        ("text/xml;charset=utf-8", None),
        ("application/json", None),
        ("application/xml", None),
        ("application/octet-stream", (415, "MQWB0306E", None)),
        ("application/x-www-form-urlencoded", (415, "MQWB0306E", None)),
        ("", (415, "MQWB0306E", None)),
        ("text/plain;charset=iso-8859-1", (406, "MQWB0305E", None)),
    ],
)
def test_bodies_are_text_in_utf_8(
    rest: RestClient, content_type: str, expected: tuple[int, str, int | None] | None
) -> None:
    answer = rest.put("Q1", content_type=content_type)
    assert answer.status == 201 if expected is None else error_of(answer)[:3] == expected


def test_bytes_that_are_no_utf_8_are_refused(rest: RestClient) -> None:
    answer = rest.ask("POST", rest.queue("Q1"), b"ab\xff")
    said = "the body is no UTF-8: byte 2 is 0xff"
    assert error_of(answer) == (400, "MQWB0301E", None, said)


def test_an_empty_body_is_an_empty_message(rest: RestClient) -> None:
    assert rest.put("Q1", "").status == 201
    got = rest.get("Q1")
    assert (got.status, got.content) == (200, "")


# A client that is gone by the time its message is there


def test_a_message_for_a_client_that_is_gone_stays_uncounted(queue_manager: QueueManager) -> None:
    """The application is asked without a server: its client is gone from the beginning."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    put_here(queue_manager, b"kept", Descriptor(format="MQSTR", coded_char_set_id=1208))
    gone = Asked(
        "DELETE",
        "/ibmmq/rest/v3/messaging/qmgr/QM1/queue/Q1/message",
        headers=[(b"ibm-mq-rest-csrf-token", b"")],
        is_lost=True,
    )
    assert asyncio.run(ask(application_of(queue_manager), gone)) == []
    message = got_of(queue_manager)
    assert (message.body, message.backout_count) == (b"kept", 0)
