"""Puts and gets of kept structures return the bytes of those that read and write each field."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection, LocalConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.pymqi.errors import MQMIError
from mayfly.pymqi.libmqm import repeated
from mayfly.pymqi.libmqm.memory import packed, unpacked
from mayfly.pymqi.libmqm.repeated import VerbOutcome
from mayfly.pymqi.structures import GMO, MD, PMO
from mayfly.pymqi.verbs import get_message, put_message
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.requests import Opened

pytestmark = pytest.mark.in_process

ID, OTHER_ID = b"id".ljust(24, b"."), b"other".ljust(24, b"\0")
#: Fields of an MQMD that a put reads, each unlike its initial value.
MESSAGES: tuple[dict[str, Any], ...] = (
    {},
    {"Expiry": 500, "Priority": 7, "Persistence": c.MQPER_PERSISTENT},
    {"Format": c.MQFMT_STRING, "CodedCharSetId": 1208, "Encoding": 273},
    {"Format": b"MQSTR\0\0\0", "MsgId": ID, "CorrelId": OTHER_ID},
    {"Report": c.MQRO_EXPIRATION, "ReplyToQ": b"Q1\0", "MsgType": c.MQMT_REQUEST},
    {"Feedback": 65_537, "UserIdentifier": b"anna", "PutApplName": b"it", "PutDate": b"20200101"},
    {"BackoutCount": 3, "AccountingToken": b"\1\2", "ApplOriginData": b"wxyz"},
)
IN_GROUP: dict[str, Any] = {"GroupId": ID, "MsgFlags": 0x18, "MsgSeqNumber": 2}


@pytest.fixture
def connection(queue_manager: QueueManager) -> Iterator[Connection]:
    assert queue_manager.mqsc(
        "DEFINE QLOCAL(Q1) CAPEXPRY(400)\nDEFINE QLOCAL(FULL) MAXDEPTH(1)\n"
        "DEFINE TOPIC(NEWS) TOPICSTR('news')"
    ).ok
    made = LocalConnection(queue_manager.session(), queue_manager)
    yield made
    made.close()


def opened(connection: Connection, name: str = "Q1") -> Opened:
    options = c.MQOO_OUTPUT | c.MQOO_INPUT_SHARED | c.MQOO_BROWSE
    return connection.call(ask.Open(name, options))


def general_put(
    connection: Connection, to: Opened, raw_md: bytes, raw_pmo: bytes, body: bytes
) -> VerbOutcome:
    md, pmo, warning = unpacked(MD, raw_md), unpacked(PMO, raw_pmo), 0
    try:
        put_message(connection, to, body, md, pmo)
    except MQMIError as error:
        if error.comp == c.MQCC_FAILED:
            raise
        warning = error.reason
    return VerbOutcome(packed(md), packed(pmo), warning)


def general_get(
    connection: Connection, handle: int, raw_md: bytes, raw_gmo: bytes, buffer_bytes: int
) -> VerbOutcome:
    md, gmo, warning = unpacked(MD, raw_md), unpacked(GMO, raw_gmo), 0
    try:
        body = get_message(connection, handle, buffer_bytes, md, gmo)
        length = len(body)
    except MQMIError as error:
        if error.comp == c.MQCC_FAILED:
            raise
        body, length, warning = error.message, error.original_length, error.reason
    return VerbOutcome(packed(md), packed(gmo), warning, body, length)


def without_msg_id(outcome: VerbOutcome | None) -> VerbOutcome:
    """Return the outcome of a put without the MsgId, which is another each time."""
    assert outcome is not None
    md = unpacked(MD, outcome.md)
    assert any(md["MsgId"])
    md["MsgId"] = bytes(24)
    return outcome._replace(md=packed(md))


@pytest.mark.parametrize(("md_version", "pmo_version"), [*product((1, 2), (1, 2, 3))])
def test_a_put_returns_the_bytes_of_the_general_one(
    connection: Connection, clock: VirtualClock, md_version: int, pmo_version: int
) -> None:
    queue = opened(connection)
    for fields, options in product(
        (*MESSAGES, IN_GROUP), (c.MQPMO_NO_SYNCPOINT, c.MQPMO_SYNCPOINT)
    ):
        md = packed(MD(Version=md_version, **fields))
        pmo = packed(PMO(Version=pmo_version, Options=options))
        # The second time with what the first has returned, as a program does that keeps it.
        for _ in range(2):
            general = general_put(connection, queue, md, pmo, b"body")
            kept = repeated.put(connection, queue.handle, md, pmo, b"body")
            assert without_msg_id(kept) == without_msg_id(general)
            md, pmo = general.md, general.options
            clock.advance(10)
        connection.call(ask.Commit())


def test_a_warning_and_a_refused_put_return_the_bytes_of_the_general_one(
    connection: Connection,
) -> None:
    topic = connection.call(ask.Open("NEWS", c.MQOO_OUTPUT, kind=c.MQOT_TOPIC))
    md = packed(MD())
    pmo = packed(PMO(Options=c.MQPMO_NO_SYNCPOINT | c.MQPMO_WARN_IF_NO_SUBS_MATCHED))
    kept = repeated.put(connection, topic.handle, md, pmo, b"body")
    assert without_msg_id(kept) == without_msg_id(general_put(connection, topic, md, pmo, b"body"))
    assert kept is not None
    assert kept.warning == rc.MQRC_NO_SUBS_MATCHED
    full = opened(connection, "FULL")
    assert repeated.put(connection, full.handle, md, packed(PMO()), b"only one") is not None
    asynchronous = packed(PMO(Options=c.MQPMO_NO_SYNCPOINT | c.MQPMO_ASYNC_RESPONSE))
    refused = repeated.put(connection, full.handle, md, asynchronous, b"body")
    assert refused == VerbOutcome(md, asynchronous, 0)
    with pytest.raises(MQError, match="MQRC_Q_FULL"):
        repeated.put(connection, full.handle, md, packed(PMO()), b"body")


@pytest.mark.parametrize(("md_version", "gmo_version"), [*product((1, 2), (1, 2, 3, 4))])
def test_a_browse_returns_the_bytes_of_the_general_one(
    connection: Connection, clock: VirtualClock, md_version: int, gmo_version: int
) -> None:
    queue = opened(connection)
    for fields in (*MESSAGES, {**IN_GROUP, "Version": 2}):
        assert repeated.put(
            connection, queue.handle, packed(MD(**fields)), packed(PMO()), "für".encode()
        )
        clock.advance(10)
    md = packed(MD(Version=md_version, CodedCharSetId=819))
    # The browse cursor of each handle is its own.
    other = opened(connection)
    for options, buffer_bytes in (
        (c.MQGMO_BROWSE_FIRST | c.MQGMO_ACCEPT_TRUNCATED_MSG, 2),
        (c.MQGMO_BROWSE_FIRST, 0),
        (c.MQGMO_BROWSE_FIRST, 100),
        *((c.MQGMO_BROWSE_NEXT | c.MQGMO_CONVERT, 100),) * len(MESSAGES),
    ):
        gmo = packed(GMO(Version=gmo_version, Options=options))
        kept = repeated.get(connection, queue.handle, md, gmo, buffer_bytes)
        assert kept == general_get(connection, other.handle, md, gmo, buffer_bytes)


@pytest.mark.parametrize("gmo_version", [1, 2, 4])
def test_a_get_by_ids_returns_the_bytes_of_the_general_one(
    connection: Connection, gmo_version: int
) -> None:
    queue = opened(connection)
    for body in (b"one", b"two"):
        connection.put(queue.handle, body, Descriptor(), msg_id=ID, correl_id=OTHER_ID)
    gmo = packed(GMO(Version=gmo_version, Options=c.MQGMO_NO_SYNCPOINT))
    md = packed(MD(MsgId=ID, CorrelId=OTHER_ID))
    kept = repeated.get(connection, queue.handle, md, gmo, 100)
    general = general_get(connection, queue.handle, md, gmo, 100)
    assert kept is not None
    assert (kept.body, general.body) == (b"one", b"two")
    assert kept.md == general.md
    with pytest.raises(MQError, match="MQRC_NO_MSG_AVAILABLE"):
        repeated.get(connection, queue.handle, md, gmo, 100)


def test_calls_that_ask_for_more_are_left_to_the_general_way(connection: Connection) -> None:
    queue = opened(connection)
    md = packed(MD())
    for pmo in (
        PMO(Options=c.MQPMO_SET_ALL_CONTEXT),
        PMO(Options=c.MQPMO_MD_FOR_OUTPUT_ONLY),
        PMO(Context=1),
        PMO(Version=2, RecsPresent=1),
        PMO(Version=3, NewMsgHandle=1),
        PMO(Version=3, OriginalMsgHandle=1),
    ):
        assert repeated.put(connection, queue.handle, md, packed(pmo), b"") is None
    extended = packed(MD(Format=b"MQHMDE"))
    assert repeated.put(connection, queue.handle, extended, packed(PMO()), b"") is None
    for gmo in (
        GMO(Options=c.MQGMO_UNLOCK),
        GMO(Options=c.MQGMO_PROPERTIES_IN_HANDLE),
        GMO(Version=4, MsgHandle=1),
        GMO(Version=2, Options=c.MQGMO_LOGICAL_ORDER),
        GMO(Version=2, MatchOptions=c.MQMO_MATCH_GROUP_ID),
    ):
        assert repeated.get(connection, queue.handle, md, packed(gmo), 100) is None
