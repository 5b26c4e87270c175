"""Groups and segments through pymqi: the fields of MD, PMO and GMO."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC

Fails = Callable[..., pymqi.MQMIError]

IN_GROUP, LAST = CMQC.MQMF_MSG_IN_GROUP, CMQC.MQMF_LAST_MSG_IN_GROUP
LOGICAL, WHOLE = CMQC.MQGMO_LOGICAL_ORDER, CMQC.MQGMO_COMPLETE_MSG


def put(queue: pymqi.Queue, body: bytes, flags: int, **more: object) -> pymqi.MD:
    """Put in logical order and return the MD."""
    md = pymqi.MD(Version=2, MsgFlags=flags, **more)
    queue.put(body, md, pymqi.PMO(Options=CMQC.MQPMO_LOGICAL_ORDER))
    return md


def test_logical_order_fills_the_md_in_but_for_its_flags(queue: pymqi.Queue) -> None:
    first = put(queue, b"1", IN_GROUP, MsgSeqNumber=7, Offset=5)
    last = put(queue, b"2", LAST)
    assert len(first.GroupId) == 24
    assert first.GroupId.strip(b"\0")
    assert (first.MsgSeqNumber, first.Offset, first.MsgFlags) == (1, 0, IN_GROUP)
    assert (last.GroupId, last.MsgSeqNumber, last.MsgFlags) == (first.GroupId, 2, LAST)


def test_the_md_of_a_put_can_be_used_for_the_next(queue: pymqi.Queue) -> None:
    md = pymqi.MD(Version=2, MsgFlags=IN_GROUP)
    queue.put(b"1", md)
    md.MsgSeqNumber, md.MsgFlags, md.MsgId = 2, LAST, CMQC.MQMI_NONE
    queue.put(b"2", md)
    gmo = pymqi.GMO(Version=2, Options=LOGICAL | CMQC.MQGMO_ALL_MSGS_AVAILABLE)
    assert [queue.get(None, pymqi.MD(Version=2), gmo) for _ in "12"] == [b"1", b"2"]


def test_a_loop_over_the_group_status(queue: pymqi.Queue) -> None:
    for number, flags in enumerate((IN_GROUP, IN_GROUP, LAST)):
        put(queue, b"%d" % number, flags)
    queue.put(b"another")
    gmo = pymqi.GMO(Version=2, MatchOptions=CMQC.MQMO_NONE)
    gmo.Options = LOGICAL | CMQC.MQGMO_ALL_MSGS_AVAILABLE
    seen, status = [], CMQC.MQGS_MSG_IN_GROUP
    while status == CMQC.MQGS_MSG_IN_GROUP:
        md = pymqi.MD(Version=2)
        seen.append((queue.get(None, md, gmo), md.MsgSeqNumber, gmo.GroupStatus))
        status = gmo.GroupStatus
    in_group = CMQC.MQGS_MSG_IN_GROUP
    assert seen == [
        (b"0", 1, in_group),
        (b"1", 2, in_group),
        (b"2", 3, CMQC.MQGS_LAST_MSG_IN_GROUP),
    ]
    assert queue.get(None, pymqi.MD(Version=2), gmo) == b"another"
    assert gmo.GroupStatus == CMQC.MQGS_NOT_IN_GROUP


def test_a_message_is_cut_and_got_as_a_whole(
    queue_manager: QueueManager, queue: pymqi.Queue
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXMSGL(50)").ok
    sent = pymqi.MD(Version=2, MsgFlags=CMQC.MQMF_SEGMENTATION_ALLOWED, Expiry=600)
    queue.put(bytes(200), sent)
    assert sent.MsgFlags == CMQC.MQMF_SEGMENTATION_ALLOWED
    part = pymqi.GMO(Version=2, Options=CMQC.MQGMO_BROWSE_FIRST)
    md = pymqi.MD(Version=2)
    assert len(queue.get(None, md, part)) == 48
    assert (part.SegmentStatus, part.Segmentation) == (CMQC.MQSS_SEGMENT, CMQC.MQSEG_ALLOWED)
    assert md.GroupId == sent.GroupId
    whole = pymqi.GMO(Version=3, Options=WHOLE)
    got = pymqi.MD(Version=2)
    assert queue.get(None, got, whole) == bytes(200)
    assert (whole.SegmentStatus, whole.ReturnedLength) == (CMQC.MQSS_LAST_SEGMENT, 200)
    assert (got.MsgId, got.Expiry, got.Offset) == (sent.MsgId, 600, 0)


def test_G06_a_get_without_a_length_takes_the_whole_message(queue: pymqi.Queue) -> None:
    put(queue, b"a" * 5_000, CMQC.MQMF_SEGMENT)
    put(queue, b"b", CMQC.MQMF_LAST_SEGMENT)
    whole = pymqi.GMO(Options=WHOLE)
    assert queue.get(None, pymqi.MD(Version=2), whole) == b"a" * 5_000 + b"b"


def test_warnings_are_raised_with_the_message(queue: pymqi.Queue, fails: Fails) -> None:
    put(queue, b"1", IN_GROUP)
    error = fails(queue.put, b"x", pymqi.MD(Version=2))
    assert (error.comp, error.reason) == (CMQC.MQCC_WARNING, CMQC.MQRC_INCOMPLETE_GROUP)
    queue.get(None, pymqi.MD(Version=2), pymqi.GMO(Version=2, Options=LOGICAL))
    error = fails(queue.get, None, pymqi.MD(Version=2))
    assert (error.comp, error.reason) == (CMQC.MQCC_WARNING, CMQC.MQRC_INCOMPLETE_GROUP)
    assert error.message == b"x"


def test_2241_the_close_warns_and_closes(
    connection: pymqi.QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    put(queue, b"1", IN_GROUP)
    error = fails(queue.close)
    assert (error.comp, error.reason) == (CMQC.MQCC_WARNING, CMQC.MQRC_INCOMPLETE_GROUP)
    assert queue.get_handle() is None
    again = pymqi.Queue(connection, "Q1")
    assert again.get(None, pymqi.MD(Version=2)) == b"1"
    again.close()


def test_2256_2257_logical_order_needs_version_2(queue: pymqi.Queue, fails: Fails) -> None:
    pmo = pymqi.PMO(Options=CMQC.MQPMO_LOGICAL_ORDER)
    assert fails(queue.put, b"x", pymqi.MD(), pmo).reason == CMQC.MQRC_WRONG_MD_VERSION
    old, new = (pymqi.GMO(Version=version, Options=LOGICAL) for version in (1, 2))
    put(queue, b"1", LAST)
    assert fails(queue.get, None, pymqi.MD(Version=2), old).reason == CMQC.MQRC_WRONG_GMO_VERSION
    assert fails(queue.get, None, pymqi.MD(), new).reason == CMQC.MQRC_WRONG_MD_VERSION
    assert queue.get(None, pymqi.MD(Version=2), new) == b"1"


def test_G03_a_group_id_of_zeros_matches_any(queue: pymqi.Queue) -> None:
    put(queue, b"1", IN_GROUP)
    gmo = pymqi.GMO(Version=2, MatchOptions=CMQC.MQMO_MATCH_GROUP_ID)
    assert queue.get(None, pymqi.MD(Version=2), gmo) == b"1"


@pytest.mark.parametrize("flags", [IN_GROUP, LAST, CMQC.MQMF_SEGMENT, CMQC.MQMF_LAST_SEGMENT])
def test_2417_a_publication_is_in_no_group_and_no_segment(
    connection: pymqi.QueueManager, fails: Fails, flags: int
) -> None:
    topic = pymqi.Topic(connection, topic_string="news")
    topic.open(open_opts=CMQC.MQOO_OUTPUT)
    error = fails(topic.pub, b"x", pymqi.MD(Version=2, MsgFlags=flags))
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_MSG_NOT_ALLOWED_IN_GROUP)
    topic.pub(b"x", pymqi.MD(Version=2, MsgFlags=CMQC.MQMF_SEGMENTATION_ALLOWED))


def test_a_topic_knows_no_logical_order(connection: pymqi.QueueManager, fails: Fails) -> None:
    topic = pymqi.Topic(connection, topic_string="news")
    topic.open(open_opts=CMQC.MQOO_OUTPUT)
    pmo = pymqi.PMO(Options=CMQC.MQPMO_LOGICAL_ORDER)
    assert fails(topic.pub, b"x", pymqi.MD(Version=2), pmo).reason == CMQC.MQRC_OPTIONS_ERROR


@pytest.mark.parametrize("flags", [0, LAST])
def test_version_2_without_flags_has_no_group(queue: pymqi.Queue, flags: int) -> None:
    md = pymqi.MD(Version=2, GroupId=b"G", MsgSeqNumber=3, MsgFlags=flags)
    queue.put(b"x", md)
    expected = (b"G".ljust(24, b"\0"), 3) if flags else (bytes(24), 1)
    assert (md.GroupId, md.MsgSeqNumber) == expected
