"""Shared queues as MQSC, pymqi and JMS see them."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, jms, pymqi
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.jms.test_listeners import Inbox
from tests.sharing.scene import PRIVATE, SHARED, Sharing
from tests.spec.scene import bodies, refused


def depth(qm: QueueManager, name: str) -> object:
    (row,) = qm.mqsc(f"DISPLAY QLOCAL({name}) CURDEPTH QSGDISP").rows
    return row["CURDEPTH"], row["QSGDISP"]


def test_C1_a_definition_is_there_for_all_members(sharing: Sharing) -> None:
    assert sharing.qm1.mqsc("DEFINE QLOCAL(NEW) QSGDISP(SHARED) MAXDEPTH(7)").ok
    assert not sharing.qm2.mqsc("DEFINE QLOCAL(NEW) QSGDISP(SHARED)").ok
    (row,) = sharing.qm2.mqsc("DISPLAY QLOCAL(NEW) MAXDEPTH QSGDISP").rows
    assert (row["MAXDEPTH"], row["QSGDISP"]) == (7, "SHARED")
    assert sharing.qm2.mqsc("ALTER QLOCAL(NEW) MAXDEPTH(8)").ok
    (row,) = sharing.qm1.mqsc("DISPLAY QLOCAL(NEW) MAXDEPTH").rows
    assert row["MAXDEPTH"] == 8
    names = {
        r["QUEUE"] for r in sharing.qm2.mqsc("DISPLAY QLOCAL(*) WHERE(QSGDISP EQ SHARED)").rows
    }
    assert names == {SHARED, "NEW"}
    assert sharing.qm2.mqsc("DELETE QLOCAL(NEW)").ok
    with sharing.qm1.session() as one, refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        one.put("NEW", b"x")


def test_depth_and_status_are_those_of_the_one_queue(sharing: Sharing) -> None:
    with sharing.qm1.session() as one:
        one.put(SHARED, b"x")
        one.put(PRIVATE, b"x")
    assert depth(sharing.qm1, SHARED) == depth(sharing.qm2, SHARED) == (1, "SHARED")
    assert depth(sharing.qm2, PRIVATE) == (0, "QMGR")
    (row,) = sharing.qm2.mqsc(f"DISPLAY QSTATUS({SHARED}) CURDEPTH LIVE UNCOM").rows
    assert (row["CURDEPTH"], row["LIVE"], row["UNCOM"]) == (1, 1, "NO")


def test_a_shared_queue_is_cleared_and_deleted_by_any_member(sharing: Sharing) -> None:
    with sharing.qm1.session() as one:
        one.put(SHARED, b"x", persistent=True)
    assert not sharing.qm2.mqsc(f"DELETE QLOCAL({SHARED})").ok
    assert sharing.qm2.mqsc(f"CLEAR QLOCAL({SHARED})").ok
    assert sharing.qm1.curdepth(SHARED) == 0
    handle = sharing.qm1.session().open(SHARED, 0x10)
    assert f"{SHARED} in use" in sharing.qm2.mqsc(f"DELETE QLOCAL({SHARED})").text
    handle.close()
    assert sharing.qm2.mqsc(f"DELETE QLOCAL({SHARED})").ok


def test_GET_DISABLED_by_one_member_holds_for_all(sharing: Sharing) -> None:
    sharing.qm1.mqsc(f"ALTER QLOCAL({SHARED}) GET(DISABLED)")
    with sharing.qm2.session() as two, refused(rc.MQRC_GET_INHIBITED):
        two.get(SHARED)


def test_LIKE_a_shared_queue_makes_a_private_one(sharing: Sharing) -> None:
    assert sharing.qm1.mqsc(f"DEFINE QLOCAL(COPY) LIKE({SHARED})").ok
    assert depth(sharing.qm1, "COPY") == (0, "QMGR")
    assert sharing.qm2.mqsc("DISPLAY QLOCAL(COPY)").rows == []


def test_what_cannot_be_shared_is_refused_with_its_reason() -> None:
    with QueueManager("QM1", clock=VirtualClock()) as alone:
        said = alone.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)").text
        assert "MQRC_OPTION_NOT_VALID_FOR_TYPE" in said
        assert "QM1 is in no queue-sharing group" in said
        assert alone.engine.registry.find("Q") is None


def test_a_shared_queue_neither_triggers_nor_feeds_a_channel_nor_becomes_private(
    sharing: Sharing,
) -> None:
    for command, why in (
        ("DEFINE QLOCAL(T) QSGDISP(SHARED) TRIGGER", "TRIGGER: T is a shared queue"),
        ("DEFINE QLOCAL(T) QSGDISP(SHARED) USAGE(XMITQ)", "USAGE: T is a shared queue"),
        (f"ALTER QLOCAL({SHARED}) USAGE(XMITQ)", f"USAGE: {SHARED} is a shared queue"),
        (f"ALTER QLOCAL({SHARED}) TRIGGER", f"TRIGGER: {SHARED} is a shared queue"),
        (f"ALTER QLOCAL({SHARED}) QSGDISP(QMGR)", f"QSGDISP of {SHARED} does not change"),
        (f"ALTER QLOCAL({PRIVATE}) QSGDISP(SHARED)", f"QSGDISP of {PRIVATE} does not change"),
    ):
        result = sharing.qm1.mqsc(command)
        assert not result.ok
        assert f"MQRC_OPTION_NOT_VALID_FOR_TYPE (2045): {why}" in result.text


def test_pymqi_puts_at_one_member_and_gets_at_another(sharing: Sharing) -> None:
    one, two = pymqi.connect("QM1"), pymqi.connect("QM2")
    pymqi.Queue(one, SHARED).put(b"hello")
    md, gmo = pymqi.MD(), pymqi.GMO(Options=pymqi.CMQC.MQGMO_SYNCPOINT)
    queue = pymqi.Queue(two, SHARED)
    assert queue.get(None, md, gmo) == b"hello"
    asking = pymqi.Queue(two, SHARED, pymqi.CMQC.MQOO_INQUIRE)
    assert asking.inquire(pymqi.CMQC.MQIA_QSG_DISP) == pymqi.CMQC.MQQSGD_SHARED
    two.backout()
    assert asking.inquire(pymqi.CMQC.MQIA_CURRENT_Q_DEPTH) == 1
    assert pymqi.Queue(one, SHARED).get() == b"hello"
    with pytest.raises(pymqi.MQMIError) as caught:
        queue.get()
    assert caught.value.reason == rc.MQRC_NO_MSG_AVAILABLE
    for connection in (one, two):
        connection.disconnect()


def test_jms_a_listener_at_one_member_gets_what_another_sends_or_releases(
    sharing: Sharing,
) -> None:
    inbox = Inbox()
    sender = jms.ConnectionFactory(sharing.qm1).create_context()
    receiver = jms.ConnectionFactory(sharing.qm2).create_context()
    queue = sender.create_queue(SHARED)
    receiver.create_consumer(receiver.create_queue(SHARED)).set_message_listener(inbox)
    sender.create_producer().send(queue, "at once")
    assert inbox.text() == "at once"
    sender.create_producer().set_delivery_delay(5_000).send(queue, "later")
    sharing.clock.advance(4_999)
    assert inbox.is_empty
    sharing.clock.advance(1)
    assert inbox.text() == "later"
    for context in (receiver, sender):
        context.close()
    assert sharing.qm1.curdepth(SHARED) == 0


def test_jms_delays_at_one_member_and_a_consumer_gets_at_another(sharing: Sharing) -> None:
    sender = jms.ConnectionFactory(sharing.qm1).create_context()
    receiver = jms.ConnectionFactory(sharing.qm2).create_context()
    queue = sender.create_queue(SHARED)
    sender.create_producer().set_delivery_delay(5_000).send(queue, "later")
    consumer = receiver.create_consumer(receiver.create_queue(SHARED))
    assert consumer.receive_no_wait() is None
    sharing.clock.advance(5_000)
    message = consumer.receive_no_wait()
    assert message is not None
    assert message.get_body(str) == "later"
    consumer.close()
    for context in (sender, receiver):
        context.close()


def test_a_native_selector_and_a_browse_work_across_members(sharing: Sharing) -> None:
    with sharing.qm1.session() as one, sharing.qm2.session() as two:
        for colour in ("red", "blue"):
            one.put(SHARED, colour.encode(), properties={"colour": colour})
        found = two.get(SHARED, selector="colour = 'blue'")
        assert found is not None
        assert [m.body[-3:] for m in two.browse(SHARED)] == [b"red"]
        assert len(bodies(two, SHARED)) == 1


def test_a_group_put_at_one_member_is_got_whole_at_another(sharing: Sharing) -> None:
    cmqc = pymqi.CMQC
    one, two = pymqi.connect("QM1"), pymqi.connect("QM2")
    sending, getting = pymqi.Queue(one, SHARED), pymqi.Queue(two, SHARED)

    def put(body: bytes, flags: int) -> None:
        options = cmqc.MQPMO_LOGICAL_ORDER | cmqc.MQPMO_NO_SYNCPOINT
        sending.put(body, pymqi.MD(Version=2, MsgFlags=flags), pymqi.PMO(Options=options))

    def get() -> bytes:
        options = cmqc.MQGMO_LOGICAL_ORDER | cmqc.MQGMO_ALL_MSGS_AVAILABLE
        gmo = pymqi.GMO(Version=2, Options=options | cmqc.MQGMO_NO_SYNCPOINT)
        return getting.get(None, pymqi.MD(Version=2), gmo)

    put(b"first", cmqc.MQMF_MSG_IN_GROUP)
    with pytest.raises(pymqi.MQMIError) as caught:
        get()
    assert caught.value.reason == rc.MQRC_NO_MSG_AVAILABLE
    put(b"last", cmqc.MQMF_LAST_MSG_IN_GROUP)
    assert [get(), get()] == [b"first", b"last"]
    for connection in (one, two):
        connection.disconnect()
