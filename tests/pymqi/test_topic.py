"""pymqi's Topic: what is published, to whom, with which options, and what is written back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock

Fails = Callable[..., pymqi.MQMIError]

START_DATE, START_TIME = b"20231114", b"22132000"


def subscribed(connection: pymqi.QueueManager, topic: str) -> pymqi.Subscription:
    """Subscribe to a topic string, managed and not durable."""
    return pymqi.Subscription(connection).sub(topic_string=topic)


def got(subscription: pymqi.Subscription) -> list[bytes]:
    """Get all that has come."""
    found = []
    while True:
        try:
            found.append(subscription.get())
        except pymqi.MQMIError as error:
            if error.reason != CMQC.MQRC_NO_MSG_AVAILABLE:
                raise
            return found


def topic_od(**fields: object) -> pymqi.OD:
    """Return an OD for a topic string."""
    od = pymqi.OD(ObjectType=CMQC.MQOT_TOPIC, Version=CMQC.MQOD_VERSION_4, **fields)
    od.set_vs("ObjectString", "a/b")
    return od


def test_a_topic_is_named_by_its_object_its_string_or_both(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    queue_manager.mqsc("DEFINE TOPIC(NEWS) TOPICSTR('news')")
    subscription = subscribed(connection, "news/#")
    pymqi.Topic(connection, "NEWS").pub(b"1")
    pymqi.Topic(connection, topic_string="news/a").pub(b"2")
    pymqi.Topic(connection, b"NEWS", b"b").pub(b"3")
    od = topic_od(ObjectName="NEWS")
    od.set_vs("ResObjectString", b"", 0, 100)
    pymqi.Topic(connection, topic_desc=od, open_opts=CMQC.MQOO_OUTPUT).pub(b"4")
    assert (od.get_vs("ResObjectString"), od.ResObjectStringVSLength) == (b"news/a/b", 8)
    assert od.ResolvedType == CMQC.MQOT_TOPIC
    assert got(subscription) == [b"1", b"2", b"3", b"4"]


def test_of_a_string_too_long_for_its_buffer_the_end_is_returned(
    connection: pymqi.QueueManager,
) -> None:
    od = topic_od()
    od.set_vs("ResObjectString", b"", 0, 2)
    with pymqi.Topic(connection, topic_desc=od, open_opts=CMQC.MQOO_OUTPUT):
        assert (od.get_vs("ResObjectString"), od.ResObjectStringVSLength) == (b"/b", 3)


def test_put_writes_back_what_was_made_of_the_descriptor(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    queue_manager.mqsc("ALTER TOPIC(SYSTEM.BASE.TOPIC) DEFPRTY(6)")
    subscription = subscribed(connection, "a")
    md, pmo = pymqi.MD(Expiry=600, CorrelId=b"C"), pymqi.PMO()
    pymqi.Topic(connection, topic_string="a").pub(b"x", md, pmo)
    assert (md.PutDate, md.PutTime, md.Priority) == (START_DATE, START_TIME, 6)
    assert (pmo.ResolvedQName, pmo.ResolvedQMgrName) == (b" " * 48, b"QM1".ljust(48))
    copy = pymqi.MD()
    assert subscription.get(None, copy) == b"x"
    assert copy.MsgId == md.MsgId != bytes(24)
    assert (copy.Expiry, copy.PutDate, copy.PutTime) == (600, START_DATE, START_TIME)


def test_E04_each_copy_lives_as_long_as_the_descriptor_says(
    clock: VirtualClock, connection: pymqi.QueueManager, fails: Fails
) -> None:
    first, second = subscribed(connection, "a"), subscribed(connection, "#")
    pymqi.Topic(connection, topic_string="a").pub(b"x", pymqi.MD(Expiry=10))
    clock.advance(999)
    md = pymqi.MD()
    assert first.get(None, md) == b"x"
    assert md.Expiry == 1
    clock.advance(1)
    assert fails(second.get).reason == CMQC.MQRC_NO_MSG_AVAILABLE


@pytest.mark.parametrize("expiry", [0, -2])
def test_E02_wrong_expiry_publishes_nothing(
    connection: pymqi.QueueManager, fails: Fails, expiry: int
) -> None:
    subscription = subscribed(connection, "a")
    topic = pymqi.Topic(connection, topic_string="a")
    error = fails(topic.pub, b"x", pymqi.MD(Expiry=expiry))
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_EXPIRY_ERROR)
    assert got(subscription) == []


def test_no_subscriber_is_a_warning_only_if_asked_for(
    connection: pymqi.QueueManager, fails: Fails
) -> None:
    topic = pymqi.Topic(connection, topic_string="a")
    topic.pub(b"1")
    md, pmo = pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_WARN_IF_NO_SUBS_MATCHED)
    error = fails(topic.pub, b"2", md, pmo)
    assert (error.comp, error.reason) == (CMQC.MQCC_WARNING, CMQC.MQRC_NO_SUBS_MATCHED)
    assert md.MsgId != b""
    subscription = subscribed(connection, "a")
    topic.pub(b"3", pymqi.MD(), pmo)
    assert got(subscription) == [b"3"]


def test_retain_keeps_it_for_later_subscribers_and_an_empty_one_ends_that(
    clock: VirtualClock, connection: pymqi.QueueManager
) -> None:
    topic = pymqi.Topic(connection, topic_string="a")
    retain = pymqi.PMO(Options=CMQC.MQPMO_RETAIN)
    topic.pub(b"kept", pymqi.MD(Expiry=20), retain)
    clock.advance(1_500)
    md = pymqi.MD()
    assert subscribed(connection, "a").get(None, md) == b"kept"
    assert md.Expiry == 5
    clock.advance(500)
    assert got(subscribed(connection, "a")) == []
    topic.pub(b"again", pymqi.MD(), retain)
    topic.pub(b"", pymqi.MD(), retain)
    assert got(subscribed(connection, "a")) == []


def test_not_own_subs_leaves_out_those_of_the_same_connection(
    connection: pymqi.QueueManager,
) -> None:
    other = pymqi.connect("QM1")
    mine, theirs = subscribed(connection, "a"), subscribed(other, "a")
    topic = pymqi.Topic(connection, topic_string="a")
    topic.pub(b"1", pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_NOT_OWN_SUBS))
    topic.pub(b"2")
    assert (got(mine), got(theirs)) == ([b"2"], [b"1", b"2"])


def test_suppress_replyto_withholds_the_reply_queue(
    connection: pymqi.QueueManager, fails: Fails
) -> None:
    subscription = subscribed(connection, "a")
    topic = pymqi.Topic(connection, topic_string="a")
    silent = pymqi.PMO(Options=CMQC.MQPMO_SUPPRESS_REPLYTO)
    seen = []
    for pmo in (pymqi.PMO(), silent):
        topic.pub(b"x", pymqi.MD(ReplyToQ="R"), pmo)
        md = pymqi.MD()
        subscription.get(None, md)
        seen.append(md.ReplyToQ.strip())
    assert seen == [b"R", b""]
    asks = pymqi.MD(ReplyToQ="R", Report=CMQC.MQRO_EXPIRATION)
    assert fails(topic.pub, b"x", asks, silent).reason == CMQC.MQRC_MISSING_REPLY_TO_Q
    assert got(subscription) == []


def test_syncpoint_publications_are_seen_at_commit(connection: pymqi.QueueManager) -> None:
    subscription = subscribed(pymqi.connect("QM1"), "a")
    topic = pymqi.Topic(connection, topic_string="a")
    pmo = pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT | CMQC.MQPMO_SCOPE_QMGR)
    topic.pub(b"1", pymqi.MD(), pmo)
    connection.backout()
    topic.pub(b"2", pymqi.MD(), pmo)
    assert got(subscription) == []
    connection.commit()
    assert got(subscription) == [b"2"]


def test_text_is_published_as_utf8_and_says_so(connection: pymqi.QueueManager) -> None:
    subscription = subscribed(connection, "grün")
    pymqi.Topic(connection, topic_string="grün").pub("grün")
    md = pymqi.MD()
    assert subscription.get(None, md) == "grün".encode()
    assert (md.CodedCharSetId, md.Format) == (1208, CMQC.MQFMT_STRING)


def test_context_is_set_where_the_topic_was_opened_for_it(
    connection: pymqi.QueueManager, fails: Fails
) -> None:
    subscription = subscribed(connection, "a")
    pmo = pymqi.PMO(Options=CMQC.MQPMO_SET_ALL_CONTEXT)
    plain = pymqi.Topic(connection, topic_string="a", open_opts=CMQC.MQOO_OUTPUT)
    assert fails(plain.pub, b"x", pymqi.MD(), pmo).reason == CMQC.MQRC_NOT_OPEN_FOR_SET_ALL
    options = CMQC.MQOO_OUTPUT | CMQC.MQOO_SET_ALL_CONTEXT
    topic = pymqi.Topic(connection, topic_string="a", open_opts=options)
    topic.pub(b"y", pymqi.MD(UserIdentifier="bob"), pmo)
    md = pymqi.MD()
    assert subscription.get(None, md) == b"y"
    assert md.UserIdentifier == b"bob".ljust(12)


def test_C7_publishing_needs_PUB_of_the_user_who_counts(
    queue_manager: QueueManager, fails: Fails
) -> None:
    queue_manager.mqsc(
        """
        DEFINE TOPIC(NEWS) TOPICSTR('a')
        DEFINE QALIAS(IN) TARGET(NEWS) TARGTYPE(TOPIC)
        SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT,ALTUSR)
        SET AUTHREC PROFILE(NEWS) OBJTYPE(TOPIC) PRINCIPAL('bob') AUTHADD(PUB)
        """
    )
    subscription = subscribed(pymqi.connect("QM1"), "#")
    connection = pymqi.connect("QM1", user="ann", password="-")
    alternate = CMQC.MQOO_OUTPUT | CMQC.MQOO_ALTERNATE_USER_AUTHORITY
    refusal = CMQC.MQRC_NOT_AUTHORIZED
    assert fails(pymqi.Topic(connection, "NEWS").pub, b"x").reason == refusal
    assert fails(connection.put1, "IN", b"x").reason == refusal
    eve = topic_od(AlternateUserId="eve")
    assert fails(pymqi.Queue, connection, eve, alternate).reason == refusal
    bob = pymqi.Queue(connection, topic_od(AlternateUserId="bob"), alternate)
    bob.put(b"1")
    queue_manager.mqsc("SET AUTHREC PROFILE(NEWS) OBJTYPE(TOPIC) PRINCIPAL('bob') AUTHRMV(PUB)")
    assert fails(bob.put, b"2").reason == refusal
    queue_manager.mqsc("SET AUTHREC PROFILE(NEWS) OBJTYPE(TOPIC) PRINCIPAL('ann') AUTHADD(PUB)")
    pymqi.Topic(connection, "NEWS").pub(b"3")
    assert fails(connection.put1, "IN", b"4").reason == refusal
    queue_manager.mqsc("SET AUTHREC PROFILE(IN) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)")
    connection.put1("IN", b"5")
    assert got(subscription) == [b"1", b"3", b"5"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"StrucId": b"MD  "}, CMQC.MQRC_OD_ERROR),
        ({"Version": 3}, CMQC.MQRC_OD_ERROR),
        ({"ObjectName": "NONE"}, CMQC.MQRC_UNKNOWN_OBJECT_NAME),
        ({"ObjectQMgrName": "QM9"}, CMQC.MQRC_UNKNOWN_REMOTE_Q_MGR),
        ({"ObjectStringVSLength": 4}, CMQC.MQRC_TOPIC_STRING_ERROR),
        ({"ObjectStringVSLength": -2}, CMQC.MQRC_TOPIC_STRING_ERROR),
        ({"ObjectStringVSLength": 0}, CMQC.MQRC_TOPIC_STRING_ERROR),
        ({"ObjectStringVSOffset": 8}, CMQC.MQRC_TOPIC_STRING_ERROR),
        ({"ObjectStringVSPtr": 4096}, CMQC.MQRC_TOPIC_STRING_ERROR),
        ({"ObjectStringVSPtr": 0}, CMQC.MQRC_TOPIC_STRING_ERROR),
    ],
    ids=str,
)
def test_wrong_descriptor_of_a_topic_is_refused(
    connection: pymqi.QueueManager, fails: Fails, fields: dict[str, object], reason: int
) -> None:
    od = topic_od()
    od.set(**fields)
    assert fails(connection.put1, od, b"x").reason == reason
    assert fails(pymqi.Queue, connection, od, CMQC.MQOO_OUTPUT).reason == reason


@pytest.mark.parametrize("string", [b"a/+", b"#", b"a\0b", b"\xff", b"x" * 10_241], ids=repr)
def test_what_is_no_topic_string_is_2425(
    connection: pymqi.QueueManager, fails: Fails, string: bytes
) -> None:
    od = topic_od()
    od.set_vs("ObjectString", string)
    assert fails(connection.put1, od, b"x").reason == CMQC.MQRC_TOPIC_STRING_ERROR


def test_a_null_terminated_string_ends_there(connection: pymqi.QueueManager) -> None:
    od = topic_od()
    od.set_vs("ObjectString", b"a\0b")
    od.ObjectStringVSLength = -1
    subscription = subscribed(connection, "a")
    connection.put1(od, b"x")
    assert got(subscription) == [b"x"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (CMQC.MQOO_INPUT_SHARED, CMQC.MQRC_OPTION_NOT_VALID_FOR_TYPE),
        (CMQC.MQOO_BROWSE | CMQC.MQOO_OUTPUT, CMQC.MQRC_OPTION_NOT_VALID_FOR_TYPE),
        (CMQC.MQOO_FAIL_IF_QUIESCING, CMQC.MQRC_OPTIONS_ERROR),
        (CMQC.MQOO_OUTPUT | 1 << 30, CMQC.MQRC_OPTIONS_ERROR),
    ],
)
def test_a_topic_is_opened_for_output(
    connection: pymqi.QueueManager, fails: Fails, options: int, reason: int
) -> None:
    topic = pymqi.Topic(connection, topic_string="a")
    assert fails(topic.open, None, None, None, options).reason == reason


def test_opened_by_a_queue_object_it_is_published_to_and_nothing_else(
    connection: pymqi.QueueManager, fails: Fails
) -> None:
    subscription = subscribed(connection, "a/b")
    queue = pymqi.Queue(connection, topic_od(), CMQC.MQOO_OUTPUT)
    queue.put(b"x")
    assert got(subscription) == [b"x"]
    assert fails(queue.get).reason == CMQC.MQRC_NOT_OPEN_FOR_INPUT
    assert fails(queue.inquire, CMQC.MQIA_CURRENT_Q_DEPTH).reason == CMQC.MQRC_NOT_OPEN_FOR_INQUIRE
    assert fails(queue.set, CMQC.MQIA_INHIBIT_PUT, 0).reason == CMQC.MQRC_NOT_OPEN_FOR_SET
    assert fails(queue.close, CMQC.MQCO_DELETE).reason == CMQC.MQRC_OPTION_NOT_VALID_FOR_TYPE
    queue.close()


def test_a_queue_alias_of_a_topic_is_put_to_by_queue_and_put1(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue_manager.mqsc(
        "DEFINE TOPIC(NEWS) TOPICSTR('news')\nDEFINE QALIAS(A) TARGET(NEWS) TARGTYPE(TOPIC)"
    )
    subscription = subscribed(connection, "news")
    pymqi.Queue(connection, "A").put(b"1")
    connection.put1("A", b"2")
    assert got(subscription) == [b"1", b"2"]
    error = fails(pymqi.Queue, connection, "A", CMQC.MQOO_INPUT_SHARED)
    assert error.reason == CMQC.MQRC_OPTION_NOT_VALID_FOR_TYPE


@pytest.mark.parametrize("option", ["RETAIN", "WARN_IF_NO_SUBS_MATCHED", "NOT_OWN_SUBS"])
def test_options_of_publications_are_none_of_queues(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails, option: str
) -> None:
    pmo = pymqi.PMO(Options=getattr(CMQC, f"MQPMO_{option}"))
    assert fails(queue.put, b"x", pymqi.MD(), pmo).reason == CMQC.MQRC_OPTIONS_ERROR
    assert queue_manager.curdepth("Q1") == 0


def test_a_topic_is_opened_and_closed_once(connection: pymqi.QueueManager) -> None:
    topic = pymqi.Topic(connection)
    with pytest.raises(pymqi.PYIFError, match="not open"):
        topic.close()
    with topic.open(topic_string="a", open_opts=CMQC.MQOO_OUTPUT) as opened:
        assert opened is topic
        with pytest.raises(pymqi.PYIFError, match="already open"):
            topic.open(topic_string="b")
    with pytest.raises(pymqi.PYIFError, match="not open"):
        topic.close()
    with pytest.raises(pymqi.PYIFError, match="has not been set"):
        topic.pub(b"x")


def test_an_exception_in_a_with_block_is_the_one_that_is_seen(
    connection: pymqi.QueueManager,
) -> None:
    with (
        pytest.raises(KeyError, match="mine"),
        pymqi.Topic(connection, topic_string="a", open_opts=CMQC.MQOO_OUTPUT) as topic,
    ):
        raise KeyError("mine")
    with pytest.raises(pymqi.PYIFError, match="not open"):
        topic.close()


@pytest.mark.parametrize("fields", [{"ObjectType": CMQC.MQOT_Q}, {"Version": 1}], ids=str)
def test_a_descriptor_that_is_not_of_a_topic_is_misuse(
    connection: pymqi.QueueManager, fields: dict[str, int]
) -> None:
    od = topic_od()
    od.set(**fields)
    with pytest.raises(pymqi.PYIFError, match="Topic Descriptor"):
        pymqi.Topic(connection, topic_desc=od)


def test_a_lost_topic_is_closed(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("ALTER QMGR MAXHANDS(1)")
    connection = pymqi.connect("QM1")
    topic = pymqi.Topic(connection, topic_string="a", open_opts=CMQC.MQOO_OUTPUT)
    with pytest.raises(pymqi.MQMIError, match="2017"):
        pymqi.Topic(connection, topic_string="b", open_opts=CMQC.MQOO_OUTPUT)
    del topic
    pymqi.Topic(connection, topic_string="b", open_opts=CMQC.MQOO_OUTPUT).close()


def test_headers_go_in_front_of_a_publication_and_come_off_again(
    connection: pymqi.QueueManager,
) -> None:
    subscription = subscribed(connection, "a")
    header = pymqi.RFH2(Format=CMQC.MQFMT_STRING, CodedCharSetId=1208, NameValueCCSID=1208)
    header.add_folder(b"<usr><colour>red</colour></usr>")
    md = pymqi.MD(Format=CMQC.MQFMT_RF_HEADER_2, Encoding=546, CodedCharSetId=1208)
    pymqi.Topic(connection, topic_string="a").pub_rfh2(b"x", md, pymqi.PMO(), [header])
    headers: list[pymqi.RFH2] = []
    body = subscription.get_rfh2(None, pymqi.MD(), pymqi.GMO(), headers)
    assert (body, [h["usr"].strip() for h in headers]) == (
        b"x",
        [b"<usr><colour>red</colour></usr>"],
    )
